package gvisor

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"

	"haft/sandbox"
	"haft/sandbox/local"
)

// A bundle is the part of an OCI runtime specification that runsc needs.
type bundle struct {
	Version  string  `json:"ociVersion"`
	Process  process `json:"process"`
	Root     root    `json:"root"`
	Hostname string  `json:"hostname"`
	Mounts   []mount `json:"mounts"`
	Linux    linux   `json:"linux"`
}

type process struct {
	User            user     `json:"user"`
	Args            []string `json:"args"`
	Env             []string `json:"env"`
	Dir             string   `json:"cwd"`
	NoNewPrivileges bool     `json:"noNewPrivileges"`
}

type user struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

type root struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readonly"`
}

type mount struct {
	Inside  string   `json:"destination"`
	Type    string   `json:"type"`
	Source  string   `json:"source"`
	Options []string `json:"options,omitempty"`
}

type linux struct {
	Namespaces []namespace `json:"namespaces"`
	UIDs       []idMap     `json:"uidMappings"`
	GIDs       []idMap     `json:"gidMappings"`
}

type namespace struct {
	Type string `json:"type"`
}

type idMap struct {
	Inside  int `json:"containerID"`
	Outside int `json:"hostID"`
	Size    int `json:"size"`
}

// command returns the arguments of runsc, and the configuration of the bundle.
func command(spec *sandbox.Spec, guest local.Guest) ([]string, []byte, error) {
	network := "none" // a loopback of the guest kernel's own
	if spec.Network != sandbox.NetworkNone {
		network = "host" // the network namespace of the run, or the host's if the run was given that
	}
	argv := []string{
		"--root=" + local.KernelDir + "/state", "--platform=systrap", "--network=" + network, "--ignore-cgroups",
		"--overlay2=none", "--host-settings=ignore",
		"--log-fd=" + strconv.Itoa(guest.Log),
		"run", "--bundle=" + local.KernelDir, "--exec-fd=" + strconv.Itoa(guest.Program),
	}
	for i, fd := range guest.Files {
		argv = append(argv, fmt.Sprintf("--pass-fd=%d:%d", fd, 3+i))
	}
	config, err := json.Marshal(bundleOf(spec, guest))
	if err != nil {
		return nil, nil, fmt.Errorf("write bundle: %w", err)
	}
	return append(argv, "haft"), config, nil
}

// bundleOf describes the run. The root is read-only; what may be written to are mounts of their own, so that the
// guest kernel looks at the host again before it trusts what it has cached of them.
func bundleOf(spec *sandbox.Spec, guest local.Guest) bundle {
	ids := []idMap{{local.GuestID, local.GuestID, 1}}
	b := bundle{
		Version: "1.0.0",
		Process: process{
			User: user{local.GuestID, local.GuestID}, Args: guest.Argv, Env: guest.Env,
			Dir: "/", NoNewPrivileges: true,
		},
		Root: root{Path: local.GuestRoot, ReadOnly: true}, Hostname: "haft",
		// Without an empty one, runsc mounts a /sys of its own, which no tool needs.
		Mounts: []mount{{Inside: "/proc", Type: "proc", Source: "proc"},
			{Inside: "/sys", Type: "tmpfs", Source: "tmpfs", Options: []string{"ro", "nosuid", "noexec"}}},
		Linux: linux{Namespaces: []namespace{{"pid"}, {"ipc"}, {"uts"}, {"mount"}, {"user"}}, UIDs: ids, GIDs: ids},
	}
	writable := []string{"/tmp", "/work", "/var/tmp", "/dev/shm"}
	for _, m := range spec.Mounts {
		if m.Writable {
			writable = append(writable, path.Clean(m.Inside))
		}
	}
	for _, dir := range writable {
		b.Mounts = append(b.Mounts, mount{Inside: dir, Type: "bind", Source: local.GuestRoot + dir,
			Options: []string{"rbind", "rw", "nosuid"}})
	}
	return b
}

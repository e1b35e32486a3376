package haft

import "slices"

// Level orders the strength of isolation, so that a policy can demand a minimum.
type Level string

// The levels, weakest first.
const (
	LevelNone       Level = "none"       // a plain process
	LevelReduced    Level = "reduced"    // some controls, but not a view of its own of the machine
	LevelNamespaces Level = "namespaces" // own namespaces and root, filtered system calls
	LevelKernel     Level = "kernel"     // a kernel of its own in user space
	LevelMachine    Level = "machine"    // a machine of its own
)

// Levels lists the levels, weakest first.
func Levels() []Level {
	return []Level{LevelNone, LevelReduced, LevelNamespaces, LevelKernel, LevelMachine}
}

// AtLeast reports whether l is as strong as min. An empty min is satisfied by
// every level; an unknown level satisfies nothing.
func (l Level) AtLeast(min Level) bool {
	if min == "" {
		return true
	}
	have, want := slices.Index(Levels(), l), slices.Index(Levels(), min)
	return have >= 0 && want >= 0 && have >= want
}

// A Control is one means of confinement.
type Control string

// The controls that a sandbox can apply.
const (
	ControlUserNS    Control = "user_ns"
	ControlMountNS   Control = "mount_ns"
	ControlPIDNS     Control = "pid_ns"
	ControlNetNS     Control = "net_ns"
	ControlIPCNS     Control = "ipc_ns"
	ControlUTSNS     Control = "uts_ns"
	ControlCgroupNS  Control = "cgroup_ns"
	ControlTimeNS    Control = "time_ns"
	ControlRoot      Control = "private_root"  // pivoted into a minimal read-only root
	ControlCaps      Control = "no_caps"       // no capability in any namespace
	ControlNoNewPriv Control = "no_new_privs"  // set-user-id bits do nothing
	ControlSeccomp   Control = "seccomp"       // system calls by allow-list
	ControlLandlock  Control = "landlock"      // files by allow-list, whatever the mounts are
	ControlMemory    Control = "memory_cgroup" // memory of all processes together
	ControlPIDs      Control = "pids_cgroup"   // number of processes and threads
	ControlCPU       Control = "cpu_cgroup"    // processor time of all processes together
	ControlRlimits   Control = "rlimits"       // bounds per process
	ControlDisk      Control = "disk_quota"    // bytes and inodes
	ControlKernel    Control = "guest_kernel"  // system calls never reach the host's kernel
)

// Controls lists every control.
func Controls() []Control {
	return []Control{
		ControlUserNS, ControlMountNS, ControlPIDNS, ControlNetNS, ControlIPCNS, ControlUTSNS,
		ControlCgroupNS, ControlTimeNS, ControlRoot, ControlCaps, ControlNoNewPriv, ControlSeccomp,
		ControlLandlock, ControlMemory, ControlPIDs, ControlCPU, ControlRlimits, ControlDisk, ControlKernel,
	}
}

// Isolation states what a run is confined by: found by trying, not by reading
// versions.
type Isolation struct {
	Level    Level     `json:"level"`
	Controls []Control `json:"controls"`
	// Missing names the controls that this machine could not give, and why.
	Missing []Gap `json:"missing,omitempty"`
}

// A Gap is a control that is not there.
type Gap struct {
	Control Control `json:"control"`
	Reason  string  `json:"reason"`
}

// Has reports whether control c is in force.
func (i Isolation) Has(c Control) bool { return slices.Contains(i.Controls, c) }

// Sandbox says where a call ran.
type Sandbox struct {
	Provider  string    `json:"provider"`
	Isolation Isolation `json:"isolation"`
	// Reason says why it ran there, where there was a choice.
	Reason string `json:"reason,omitempty"`
}

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/cgroup"
)

// assume assumes every control that is not known to be missing. The assumption is proven
// or corrected by the first set-up of a sandbox.
func (p *Provider) assume() {
	p.privileged = os.Geteuid() == 0 && mayAdminister()
	p.namespaces, p.hasProc, p.overlay = true, true, true
	p.isolation = haft.Isolation{Level: haft.LevelNamespaces, Controls: haft.Controls()}
	p.dropControl(haft.ControlKernel, "the host's kernel serves the sandbox")
	wall, err := openLandlock()
	if p.landlock = wall; err != nil {
		p.dropControl(haft.ControlLandlock, "the kernel has no Landlock: "+err.Error())
	}
	for _, c := range p.config.Forbid {
		p.giveUp(c, "the operator forbids it")
	}
	p.setLevel()
}

// prove makes sure that what is assumed is true.
func (p *Provider) prove(ctx context.Context) error {
	if p.proven.Load() {
		return nil
	}
	p.proving.Lock()
	defer p.proving.Unlock()
	if p.proven.Load() {
		return nil
	}
	return p.probe(ctx)
}

// probe sets up a sandbox without a command, and gives up failing controls until it
// succeeds.
// Preconditions: p.proving is held.
func (p *Provider) probe(ctx context.Context) error {
	for range len(haft.Controls()) {
		err := p.try(ctx)
		if err == nil {
			p.proven.Store(true)
			return nil
		}
		step, ok := errors.AsType[*sandbox.SetupError](err)
		if !ok {
			return err
		}
		if !p.degrade(step) {
			message := "this machine cannot confine anything"
			if step.Step == "landlock" {
				message += fmt.Sprintf(": it gives neither namespaces nor Landlock of ABI %d (Linux 6.2)", reducedABI)
			}
			return &haft.Error{Code: haft.CodeUnavailable, Message: message, Err: err}
		}
		p.setLevel()
	}
	return errors.New("the sandbox could not be probed")
}

// runUnproven runs a command before the isolation is proven. Its own set-up is the proof:
// a single command should not have to wait for a probe. Only if the set-up fails, the
// provider is probed; if it then promises less, the run, which has not begun, is tried
// again.
func (p *Provider) runUnproven(ctx context.Context, spec *sandbox.Spec) (sandbox.Exit, error) {
	p.proving.Lock()
	held := true
	release := func() {
		if held {
			held = false
			p.proving.Unlock()
		}
	}
	defer release()
	if p.proven.Load() {
		release()
		return p.run(ctx, spec, nil)
	}
	before := p.isolation
	if err := p.admit(sandbox.Need{}, before); err != nil {
		return sandbox.Exit{}, err
	}
	exit, err := p.run(ctx, spec, func() {
		p.proven.Store(true)
		release()
	})
	if _, ok := errors.AsType[*sandbox.SetupError](err); !ok || !held {
		return exit, err
	}
	if e := p.probe(ctx); e != nil {
		return exit, errors.Join(err, e)
	}
	if slices.Equal(before.Controls, p.isolation.Controls) {
		return exit, err
	}
	if err := p.admit(sandbox.Need{}, p.isolation); err != nil {
		return sandbox.Exit{}, err
	}
	release()
	return p.run(ctx, spec, nil)
}

// admit reports why nothing may run with the isolation that this machine gives: it is
// less than what is needed, or reduced, which the operator has to allow.
func (p *Provider) admit(need sandbox.Need, have haft.Isolation) error {
	if have.Level == haft.LevelReduced && !p.config.AllowReduced {
		return &haft.Error{Code: haft.CodeDenied, Message: refusal(have)}
	}
	return need.Check(have)
}

// refusal says what a reduced sandbox lacks, and what can be done.
func refusal(have haft.Isolation) string {
	var lacks []string
	why := ""
	for _, c := range levelControls() {
		if i := slices.IndexFunc(have.Missing, func(g haft.Gap) bool { return g.Control == c }); i >= 0 {
			lacks = append(lacks, string(c))
			why = cmp.Or(why, have.Missing[i].Reason)
		}
	}
	return fmt.Sprintf("the sandbox here is reduced, which has to be allowed: there is no %s (%s). Give Haft "+
		"namespaces "+
		"(haft doctor says how; in a container, the flags in docs/deploy.md), or allow it with --allow-reduced, "+
		"or use another sandbox", strings.Join(lacks, ", "), why)
}

// controllers are the controls that are cgroups.
var controllers = map[haft.Control]string{
	haft.ControlMemory: cgroup.Memory, haft.ControlPIDs: cgroup.PIDs, haft.ControlCPU: cgroup.CPU,
}

// degrade gives up the control that a failed step was for. It reports whether another
// attempt makes sense.
func (p *Provider) degrade(e *sandbox.SetupError) bool {
	reason := e.Error()
	switch {
	case e.Step == "cgroup":
		for _, c := range controllers {
			p.tree.Drop(c, reason)
		}
		return true
	case e.Step == "landlock" && p.isolation.Has(haft.ControlLandlock):
		return p.dropControl(haft.ControlLandlock, reason)
	case e.Step == "seccomp" && p.isolation.Has(haft.ControlSeccomp):
		return p.dropControl(haft.ControlSeccomp, reason)
	case !p.namespaces:
		return false
	case e.Path == "time" || strings.HasSuffix(e.Path, "/timens_offsets"):
		return p.dropControl(haft.ControlTimeNS, reason)
	case e.Step == "overlay" && p.overlay:
		p.overlay = false
		p.log.Warn("runs share the inodes of what is mounted read-only: a lock on a file can be felt by another run",
			"err", reason)
		return true
	case e.Step == "sethostname" && p.isolation.Has(haft.ControlUTSNS):
		// The filter of podman forbids it, and nothing else that a sandbox needs.
		return p.dropControl(haft.ControlUTSNS, reason)
	case e.Step == "unshare" && e.Path == "cgroup":
		return p.dropControl(haft.ControlCgroupNS, reason)
	case e.Step == "mount" && e.Path == "proc" && p.hasProc:
		// A container masks parts of /proc, and then nobody may mount a whole
		// one (mount_too_revealing). A sandbox without one sees less, not more.
		p.hasProc = false
		return p.dropControl(haft.ControlTimeNS, reason)
	default:
		return p.giveUp(haft.ControlMountNS, reason)
	}
}

// setLevel sets how strong the isolation is. Namespaces without a filter of system
// calls, or without a root of their own, are not what the word promises.
func (p *Provider) setLevel() {
	p.mayNamespace.Store(p.namespaces)
	for control, controller := range controllers {
		if !p.tree.Has(controller) {
			p.dropControl(control, p.tree.Missing(controller))
		}
	}
	if !p.namespaces && p.landlock.abi < reducedABI {
		p.dropControl(haft.ControlLandlock,
			fmt.Sprintf("without namespaces Landlock must have ABI %d (Linux 6.2), this is %d: "+
				"it does not keep files from being cut", reducedABI, p.landlock.abi))
	}
	if !p.namespaces && !p.privileged {
		p.dropControl(haft.ControlCaps,
			"only a privileged process can empty the bounding set; no_new_privs keeps it from being used")
	}
	for _, c := range levelControls() {
		if !p.isolation.Has(c) {
			p.isolation.Level = haft.LevelReduced
		}
	}
}

// levelControls are the controls without which the isolation is reduced.
func levelControls() []haft.Control {
	return []haft.Control{haft.ControlUserNS, haft.ControlRoot, haft.ControlSeccomp, haft.ControlCaps,
		haft.ControlNoNewPriv}
}

// mayAdminister reports whether this process has CAP_SYS_ADMIN, which the root of a
// container lacks. Without it namespaces are made the way of an ordinary user.
func mayAdminister() bool {
	var sets [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false
	}
	return sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// dropControl removes a control that is not there. It reports true.
func (p *Provider) dropControl(c haft.Control, reason string) bool {
	p.isolation = without(p.isolation, c, reason)
	return true
}

// reducedNames is what a result states of a sandbox without a root of its own. No
// filter can judge the paths of these calls, and Landlock does not.
const reducedNames = "; names, sizes, owners and times of the host's files can be asked for (stat, access, " +
	"readlink, chdir), their contents not"

// giveUp removes a control, and the controls that depend on it.
func (p *Provider) giveUp(c haft.Control, reason string) bool {
	together := []haft.Control{
		haft.ControlUserNS, haft.ControlMountNS, haft.ControlPIDNS, haft.ControlNetNS, haft.ControlIPCNS,
		haft.ControlUTSNS, haft.ControlRoot, haft.ControlDisk, haft.ControlCgroupNS, haft.ControlTimeNS,
	}
	if controller, ok := controllers[c]; ok {
		p.tree.Drop(controller, reason)
	}
	if alone := haft.ControlCgroupNS == c || haft.ControlTimeNS == c; slices.Contains(together, c) && !alone {
		p.namespaces = false
		// Without namespaces it is another user id that keeps a tool from our files,
		// for which root needs no more than to be root.
		p.privileged = os.Geteuid() == 0
		p.dropControl(haft.ControlRoot, reason+reducedNames)
		for _, t := range together {
			p.dropControl(t, reason)
		}
	}
	return p.dropControl(c, reason)
}

// try sets up a sandbox in which nothing runs.
func (p *Provider) try(ctx context.Context) error {
	spec := sandbox.Spec{Limits: haft.DefaultLimits()}
	if info, err := os.Lstat("/usr"); err == nil && info.IsDir() {
		spec.Mounts = []sandbox.Mount{{Host: "/usr", Inside: "/usr"}}
	}
	r := &run{p: p, spec: &spec, flood: make(chan struct{}, 2), initTasks: p.initTasks()}
	_, err := r.runCold(ctx, nil)
	if errors.Is(err, io.EOF) && r.private != nil {
		err = nil // it was ready, and ended, having no command
	}
	if e := r.tearDown(); err == nil && e != nil {
		err = fmt.Errorf("probe: %w", e)
	}
	return err
}

// without returns i less one control.
func without(i haft.Isolation, c haft.Control, reason string) haft.Isolation {
	if !i.Has(c) {
		return i
	}
	i.Controls = slices.DeleteFunc(slices.Clone(i.Controls), func(x haft.Control) bool { return x == c })
	i.Missing = append(slices.Clone(i.Missing), haft.Gap{Control: c, Reason: reason})
	return i
}

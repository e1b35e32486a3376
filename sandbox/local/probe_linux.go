package local

import (
	"context"
	"os"
	"slices"

	"haft"
	"haft/sandbox/local/internal/cgroup"
)

// probe finds out what can be had here.
func (p *Provider) probe(ctx context.Context) error {
	p.privileged = os.Geteuid() == 0
	p.namespaces, p.hasProc = true, true
	var ll error
	p.wall, ll = openLandlock()
	p.isolation = haft.Isolation{Level: haft.LevelNamespaces}
	for _, c := range haft.Controls() {
		reason := ""
		switch c {
		case haft.ControlMemory:
			reason = p.tree.Missing(cgroup.Memory)
		case haft.ControlPIDs:
			reason = p.tree.Missing(cgroup.PIDs)
		case haft.ControlCPU:
			reason = p.tree.Missing(cgroup.CPU)
		case haft.ControlLandlock:
			if ll != nil {
				reason = "the kernel has no Landlock: " + ll.Error()
			}
		case haft.ControlKernel:
			reason = "the host's kernel serves the sandbox"
		}
		if slices.Contains(p.config.Forbid, c) {
			reason = "the operator forbids it"
		}
		if reason != "" {
			p.isolation.Missing = append(p.isolation.Missing, haft.Gap{Control: c, Reason: reason})
			continue
		}
		p.isolation.Controls = append(p.isolation.Controls, c)
	}
	return nil
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

package local

import (
	"bytes"
	"errors"
	"runtime"

	"haft/sandbox"
)

// KillTemplate ends the process of a template behind its back.
func KillTemplate(t sandbox.Template) {
	tpl := t.(*Template)
	tpl.mu.Lock()
	defer tpl.mu.Unlock()
	tpl.now.host.init.kill()
	_ = tpl.now.host.init.wait() // what is about to die may still fork
}

// PretendLandlock makes a provider that has run nothing yet believe in an older kernel.
func PretendLandlock(p *Provider, abi int) {
	p.machine.landlock.abi = abi
	p.machine.setLevel()
}

// ReadOutput returns what an output reader passes on, and counts, of what is written
// before and after it was stopped.
func ReadOutput(before, after string) (string, int64, error) {
	var out bytes.Buffer
	p, far, err := startOutputReader(&out, 1<<20, func() {})
	if err != nil {
		return "", 0, err
	}
	if _, err = far.WriteString(before); err == nil {
		for !p.stopIfEmpty() {
			runtime.Gosched() // until what was written has been read
		}
		_, err = far.WriteString(after)
	}
	err = errors.Join(err, far.Close())
	<-p.done // it has seen the end
	p.close()
	return out.String(), p.total, err
}

// SendTemplate sends b in the place of an order.
func SendTemplate(t sandbox.Template, b []byte) error { return t.(*Template).now.control.SendBytes(b) }

// ForkWithout has the template fork with fewer descriptors than its order needs.
func ForkWithout(t sandbox.Template, fds ...int) error {
	g := t.(*Template).now
	f := g.forkOf
	f.Slots = len(f.Steps) // no step uses more
	_, err := g.fork(f, fds)
	return err
}

// SendLimits has the init of a template report a limit of processes that have ended, or not begun yet.
func SendLimits(t sandbox.Template) {
	g := t.(*Template).now
	for pid := range 1000 {
		if pid != g.host.pid {
			g.forward(message{Kind: msgLimit, PID: pid, Limit: "limit_memory"})
		}
	}
}

// Ends returns how many ends of forks a template waits for.
func Ends(t sandbox.Template) int {
	g := t.(*Template).now
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.ended)
}

// MetersOf returns how many meters begin when a process is to be metered, and stops them.
func MetersOf(pid int) int {
	ms := newMeters(func(message) {})
	ms.start(pid, &watch{})
	ms.mu.Lock()
	n := len(ms.all)
	ms.mu.Unlock()
	ms.stop(&message{PID: pid}, true)
	return n
}

package local

import "haft/sandbox"

// KillTemplate ends the process of a template behind its back.
func KillTemplate(t sandbox.Template) {
	tpl := t.(*Template)
	tpl.mu.Lock()
	defer tpl.mu.Unlock()
	tpl.now.host.init.kill()
}

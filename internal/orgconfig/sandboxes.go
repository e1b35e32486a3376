package orgconfig

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"haft"
)

// A Place is a kind of sandbox that this server knows.
type Place struct {
	Type haft.SandboxType
	// Missing says what is missing here, and what to do about it; "" means that tools can run there.
	Missing string
	// Remote says that code and data leave this machine.
	Remote bool
	// Try reports why nothing can run there although nothing is missing, and is asked when the place is named; nil
	// means that this is found out by running something.
	Try func(ctx context.Context) error
	// Level returns the isolation that it gives; nil means that nobody knows, and that it is not looked at.
	Level func(ctx context.Context) haft.Level
}

// Places returns places of this machine that give any isolation.
func Places(types ...haft.SandboxType) []Place {
	list := make([]Place, len(types))
	for i, t := range types {
		list[i].Type = t
	}
	return list
}

// An Ask is what is known of a call whose sandbox is to be chosen.
type Ask struct {
	Org string
	// Template is the one that the call names, "" for none. Takes says that the tool takes one: other tools have the
	// packages that their owners have chosen and locked.
	Template string
	Takes    bool
	// Call, Tool and Agent are the names that they give, "" for none. The first of them counts.
	Call, Tool, Agent string
	// Level is the isolation that is demanded.
	Level haft.Level
	// Code says that the tool runs code in a sandbox that can be chosen. Here says that it does so on this machine
	// only, as built-in tools do, and Local that it needs something of this machine: hosts that it is held to, or a
	// workspace.
	Code, Here, Local bool
}

// AskOf returns what is known of a call of a tool. Agent is nil for none.
func (r *Reader) AskOf(c haft.Call, t haft.Tool, agent *haft.Agent, level haft.Level) Ask {
	v := t.Version
	ask := Ask{Org: c.Principal.Org, Template: c.Template, Takes: v.Kind == haft.KindBuiltin, Call: c.Sandbox,
		Tool: v.Settings.Sandbox, Level: level,
		Code:  v.Kind != haft.KindBuiltin && v.Kind != haft.KindMCP,
		Here:  v.Kind == haft.KindBuiltin,
		Local: len(v.Settings.Network) > 0 || c.Workspace != nil}
	if ask.Here && r.cfg.RunsCode != nil {
		ask.Code = r.cfg.RunsCode(t.Name)
	}
	if agent != nil {
		ask.Agent = agent.Sandbox
	}
	if c.Parent != "" && !ask.Code {
		ask.Call = "" // it was named for the call that this one follows, whose tool runs in a sandbox
	}
	return ask
}

// A Choice is the sandbox of a call.
type Choice struct {
	// Types are the sandbox, and those that can take its place if it is not available.
	Types []haft.SandboxType
	// Reason says why it is that one, if there was a choice.
	Reason string
	// Config is what the organisation says of it.
	Config haft.SandboxConfig
	// Shown is what an approver is shown of it: that code leaves the machine, or what agent or organisation named.
	Shown string
}

// Choose returns the sandbox of a call: what the call names, else the tool, the agent or the organisation, else the
// first place that is available, allowed and as isolated as is demanded. The error has [haft.CodeInvalid] for a name
// that cannot be had, and [haft.CodeDenied] for a place where code of the organisation may not go.
func (r *Reader) Choose(ctx context.Context, ask Ask) (Choice, error) {
	byType, err := r.sandboxes.get(ctx, ask.Org, r.cfg.Shared, r.readSandboxes)
	if err != nil {
		return Choice{}, err
	}
	name, reason := ask.named(byType)
	var c Choice
	if name != "" && name != "auto" {
		c, err = r.chooseNamed(ctx, ask, byType, name, reason)
	} else {
		c, err = r.chooseAuto(ctx, ask, byType)
	}
	switch {
	case err == nil && ask.Template != "" && !ask.Takes:
		err = &haft.Error{Code: haft.CodeInvalid,
			Message: "only built-in tools take a template: other tools have requirements of their own"}
	case err == nil && ask.Template != "":
		templates := c.Config.Templates
		if ask.Call == "" { // E2B's API keeps them with the sandbox that its own are in
			templates = slices.Concat(templates, configOf(byType, r.local()).Templates)
		}
		err = c.addTemplate(templates, ask.Template)
	}
	if err != nil {
		return Choice{}, err
	}
	return c, nil
}

// addTemplate adds the packages of the first template of a name to those of the configuration.
func (c *Choice) addTemplate(list []haft.SandboxTemplate, name string) error {
	var names []string
	for _, t := range list {
		if t.Name == name {
			n := &c.Config.Needs
			n.Pip, n.NPM = slices.Concat(n.Pip, t.Needs.Pip), slices.Concat(n.NPM, t.Needs.NPM)
			return nil
		}
		names = append(names, t.Name)
	}
	message := "there is no such template; the sandbox configuration has none"
	if len(names) > 0 {
		slices.Sort(names)
		message = "there is no such template; there are " + strings.Join(slices.Compact(names), ", ")
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: message,
		Misfits: []haft.Misfit{{Pointer: "/template", Message: "is none of the templates"}}}
}

// named returns the sandbox that somebody names, and who.
func (a Ask) named(byType map[haft.SandboxType]*haft.SandboxConfig) (name, reason string) {
	switch {
	case a.Call != "":
		return a.Call, "named by the call"
	case a.Tool != "":
		return a.Tool, "named by the tool"
	case !a.Code:
		return "", ""
	case a.Agent != "":
		return a.Agent, "named by the agent"
	}
	for _, t := range haft.SandboxTypes() {
		if c := byType[t]; c != nil && c.Default {
			return string(t), "the default of the organisation"
		}
	}
	return "", ""
}

// chooseNamed returns the named place, or what stands in its way.
func (r *Reader) chooseNamed(ctx context.Context, ask Ask, byType map[haft.SandboxType]*haft.SandboxConfig,
	name, reason string) (Choice, error) {
	if err := r.CheckSandbox(name, "/sandbox"); err != nil {
		return Choice{}, err
	}
	typ := haft.SandboxType(name)
	list := r.places()
	p := list[slices.IndexFunc(list, func(p Place) bool { return p.Type == typ })]
	c := Choice{Types: []haft.SandboxType{typ}, Reason: reason, Shown: name, Config: exactly(byType, typ)}
	switch {
	case !ask.Code: // its result would say nothing of the sandbox
		return Choice{}, refuseName("this tool runs in no sandbox that can be chosen: leave the name out")
	case ask.Here && p.Remote:
		return Choice{}, refuseName("built-in tools run code on this server only, and not in the sandbox " + name +
			" (" + reason + "); " + r.instead())
	}
	if why := p.refuses(ask, c.Config); why != "" {
		return Choice{}, &haft.Error{Code: haft.CodeDenied, Message: "the sandbox " + name + " is refused: " + why}
	}
	if p.Try == nil {
		return c, nil
	}
	if err := p.Try(ctx); haft.CodeOf(err) == haft.CodeUnavailable {
		return Choice{}, refuseName("the sandbox " + name + " is not available on this server: " + haft.MessageOf(err))
	} else if err != nil {
		return Choice{}, fmt.Errorf("try the sandbox %s: %w", name, err)
	}
	return c, nil
}

// refuseName is the error of a name that cannot be followed. To run elsewhere would be to run with another isolation
// than whoever named the sandbox believes.
func refuseName(message string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: message,
		Misfits: []haft.Misfit{{Pointer: "/sandbox", Message: message}}}
}

// instead says what a call can name whose code has to run on this machine.
func (r *Reader) instead() string {
	var names []string
	for _, p := range r.places() {
		if !p.Remote && p.Missing == "" {
			names = append(names, string(p.Type))
		}
	}
	if len(names) == 0 {
		return "it has no sandbox, so that none can be named"
	}
	return "the call, or whoever manages the agent or the organisation, can name " + strings.Join(names, " or ")
}

// refuses says why a call may not run at a place that is available, or "".
func (p Place) refuses(ask Ask, c haft.SandboxConfig) string {
	switch {
	case p.Remote && !c.AllowRemote:
		return "the organisation does not allow its code to leave this machine; its administrator can set " +
			"allow_remote in the sandbox configuration " + string(p.Type)
	case p.Remote && (ask.Local || len(c.Network) > 0):
		return "the tool needs hosts or a workspace, which only sandboxes of this machine give"
	}
	return ""
}

// chooseAuto returns the first place that fits, and after one elsewhere those that fit too, up to the first of this
// machine. All have the same configuration: what was decided for the first holds for the others.
func (r *Reader) chooseAuto(ctx context.Context, ask Ask, byType map[haft.SandboxType]*haft.SandboxConfig) (Choice,
	error) {
	var c Choice
	var passed []string
	remote := false
	available := slices.DeleteFunc(slices.Clone(r.places()), func(p Place) bool { return p.Missing != "" })
	if ask.Here || !ask.Code { // it runs on this machine, and has the packages of a sandbox here
		if available = slices.DeleteFunc(available, func(p Place) bool { return p.Remote }); len(available) == 0 {
			return Choice{Config: configOf(byType, haft.SandboxLocal)}, nil
		}
	}
	for _, p := range available {
		if len(c.Types) > 0 && !remote {
			break
		}
		config := configOf(byType, p.Type)
		why := p.refuses(ask, config)
		if why == "" && ask.Level != "" && p.Level != nil && !p.Level(ctx).AtLeast(ask.Level) {
			why = "its isolation is not " + string(ask.Level)
		}
		switch {
		case why != "":
			passed = append(passed, string(p.Type)+" is passed over: "+why)
		case len(c.Types) == 0:
			c.Types, c.Config, remote = []haft.SandboxType{p.Type}, config, p.Remote
		case alike(c.Config, config):
			c.Types, remote = append(c.Types, p.Type), p.Remote
		}
	}
	if len(c.Types) == 0 { // the sandbox of this machine refuses it, and says how it could be had
		if len(available) == 0 {
			return Choice{}, &haft.Error{Code: haft.CodeUnavailable, Message: "there is no sandbox on this server"}
		}
		i := slices.IndexFunc(available, func(p Place) bool { return !p.Remote })
		if i < 0 {
			return Choice{}, &haft.Error{Code: haft.CodeDenied, Message: strings.Join(passed, "; ")}
		}
		c.Types, c.Config = []haft.SandboxType{available[i].Type}, configOf(byType, available[i].Type)
	}
	var away []string
	for _, t := range c.Types {
		if t == haft.SandboxE2B || t == haft.SandboxModal {
			away = append(away, string(t))
		}
	}
	c.Shown = strings.Join(away, " or ")
	if len(available) > 1 && ask.Code {
		c.Reason = strings.Join(append([]string{"auto"}, passed...), "; ")
	}
	return c, nil
}

// alike reports whether two configurations say the same of a call.
func alike(a, b haft.SandboxConfig) bool {
	for _, c := range []*haft.SandboxConfig{&a, &b} {
		c.ID, c.Org, c.Type, c.Description, c.If, c.Default, c.AllowRemote = "", "", "", "", "", false, false
		c.Created, c.Updated = time.Time{}, time.Time{}
	}
	return reflect.DeepEqual(a, b)
}

// configOf returns what an organisation says of a type that nobody named. For one of this machine that it says nothing
// of, what it says of [haft.SandboxLocal] holds, as it was before there were others.
func configOf(byType map[haft.SandboxType]*haft.SandboxConfig, typ haft.SandboxType) haft.SandboxConfig {
	if byType[typ] == nil && typ != haft.SandboxE2B && typ != haft.SandboxModal {
		typ = haft.SandboxLocal
	}
	return exactly(byType, typ)
}

// exactly returns what an organisation says of a type, or nothing.
func exactly(byType map[haft.SandboxType]*haft.SandboxConfig, typ haft.SandboxType) haft.SandboxConfig {
	if c := byType[typ]; c != nil {
		return *c
	}
	return haft.SandboxConfig{}
}

// Sandbox returns what holds for calls of an organisation that run in a sandbox of a type; the zero value if nobody
// said. An empty type is that of calls that name none.
func (r *Reader) Sandbox(ctx context.Context, org string, typ haft.SandboxType) (haft.SandboxConfig, error) {
	byType, err := r.sandboxes.get(ctx, org, r.cfg.Shared, r.readSandboxes)
	if err != nil {
		return haft.SandboxConfig{}, err
	}
	if typ == "" || typ == "auto" {
		return configOf(byType, r.local()), nil
	}
	return exactly(byType, typ), nil
}

// local is the first place of this machine that is available.
func (r *Reader) local() haft.SandboxType {
	for _, p := range r.places() {
		if !p.Remote && p.Missing == "" {
			return p.Type
		}
	}
	return haft.SandboxLocal
}

// places are those that the server knows.
func (r *Reader) places() []Place {
	if len(r.cfg.Places) == 0 {
		return Places(haft.SandboxLocal)
	}
	return r.cfg.Places
}

// CheckSandbox reports why nothing can run in the sandbox that somebody names: there is no such one, or not here. It is
// the one place that decides it, for calls, tools, agents and sandbox configurations. To run in another sandbox than
// the named one would be to run with another isolation. Empty and auto leave the choice to the engine.
func (r *Reader) CheckSandbox(name, pointer string) error {
	if name == "" || name == "auto" {
		return nil
	}
	message := "there is no such sandbox on this server"
	if haft.SandboxType(name).Check() == nil {
		message = "the sandbox " + name + " is not available on this server"
	}
	var have []string
	for _, p := range r.places() {
		if p.Type == haft.SandboxType(name) {
			if p.Missing == "" {
				return nil
			}
			message += ": " + p.Missing
		} else if p.Missing == "" {
			have = append(have, string(p.Type))
		}
	}
	message += "; it has " + strings.Join(have, ", ")
	return &haft.Error{Code: haft.CodeInvalid, Message: message,
		Misfits: []haft.Misfit{{Pointer: pointer, Message: message}}}
}

// readSandboxes reads the sandbox configurations of an organisation.
func (r *Reader) readSandboxes(ctx context.Context, org string) (map[haft.SandboxType]*haft.SandboxConfig, error) {
	list, err := r.cfg.Sandboxes.SandboxConfigs(ctx, org)
	if err != nil {
		return nil, err
	}
	byType := make(map[haft.SandboxType]*haft.SandboxConfig, len(list))
	for i := range list {
		byType[list[i].Type] = &list[i]
	}
	return byType, nil
}

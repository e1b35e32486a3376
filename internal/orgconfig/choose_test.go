package orgconfig_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/internal/orgconfig"
)

// kept are the sandbox configurations of an organisation.
type kept []haft.SandboxConfig

// SandboxConfigs implements [orgconfig.Sandboxes].
func (k kept) SandboxConfigs(context.Context, string) ([]haft.SandboxConfig, error) { return k, nil }

// level returns what says that a place has a level.
func level(l haft.Level) func(context.Context) haft.Level {
	return func(context.Context) haft.Level { return l }
}

// places are those of a server with everything but modal.
func places() []orgconfig.Place {
	return []orgconfig.Place{
		{Type: haft.SandboxE2B, Remote: true, Level: level(haft.LevelMachine)},
		{Type: haft.SandboxLocal, Level: level(haft.LevelNamespaces)},
		{Type: haft.SandboxGVisor, Level: level(haft.LevelKernel)},
		{Type: haft.SandboxModal, Remote: true, Missing: "there is no client"},
	}
}

// ask is short for what is asked.
type ask = orgconfig.Ask

func TestChoose(t *testing.T) {
	allowed := haft.SandboxConfig{Type: haft.SandboxE2B, AllowRemote: true, Org: "acme", ID: "1"}
	preferred := haft.SandboxConfig{Type: haft.SandboxGVisor, Default: true}
	for name, c := range map[string]struct {
		ask    ask
		kept   kept
		want   string // types, or the code of the error
		reason string // of the choice, or in the message of the error
	}{
		"nothing said":         {ask{}, nil, "local", "e2b is passed over: the organisation does not"},
		"allowed":              {ask{}, kept{allowed}, "e2b local", "auto"},
		"by the call":          {ask{Call: "gvisor", Tool: "local", Agent: "e2b"}, nil, "gvisor", "by the call"},
		"by the tool":          {ask{Tool: "local", Agent: "e2b"}, nil, "local", "by the tool"},
		"by the agent":         {ask{Agent: "gvisor"}, kept{allowed}, "gvisor", "by the agent"},
		"by the organisation":  {ask{}, kept{allowed, preferred}, "gvisor", "default of the organisation"},
		"auto by the call":     {ask{Call: "auto", Tool: "gvisor"}, kept{allowed}, "e2b local", "auto"},
		"remote is not leave":  {ask{Call: "e2b"}, nil, "denied", "allow_remote"},
		"default is not leave": {ask{}, kept{{Type: haft.SandboxE2B, Default: true}}, "denied", "allow_remote"},
		"an agent is not leave": {ask{Agent: "e2b"}, kept{{Type: haft.SandboxLocal, AllowRemote: true}}, "denied",
			"allow_remote"},
		"missing": {ask{Tool: "modal"}, kept{{Type: haft.SandboxModal, AllowRemote: true}}, "invalid",
			"no client"},
		"unknown":            {ask{Call: "moon"}, nil, "invalid", "no such sandbox"},
		"needs this machine": {ask{Local: true}, kept{allowed}, "local", "only sandboxes of this machine"},
		"needs it, but e2b is named": {ask{Local: true, Call: "e2b"}, kept{allowed}, "denied",
			"only sandboxes of this machine"},
		"hosts of the organisation": {ask{Call: "e2b"}, kept{{Type: haft.SandboxE2B, AllowRemote: true,
			Network: []string{"example.com"}}}, "denied", "hosts"},
		"isolation":                   {ask{Level: haft.LevelKernel}, nil, "gvisor", "passed over: its isolation"},
		"isolation of a machine":      {ask{Level: haft.LevelMachine}, kept{allowed}, "e2b", "auto"},
		"isolation that nobody gives": {ask{Level: haft.LevelMachine}, nil, "local", "auto"},
		"no fallback to another configuration": {ask{}, kept{allowed, {Type: haft.SandboxLocal,
			Network: []string{"example.com"}}}, "e2b", "auto"},
	} {
		t.Run(name, func(t *testing.T) {
			r := orgconfig.New(orgconfig.Config{Sandboxes: c.kept, Places: places()})
			c.ask.Org, c.ask.Code = "acme", true
			got, err := r.Choose(t.Context(), c.ask)
			types := make([]string, len(got.Types))
			for i := range got.Types {
				types[i] = string(got.Types[i])
			}
			have, why := strings.Join(types, " "), got.Reason
			if err != nil {
				have, why = string(haft.CodeOf(err)), haft.MessageOf(err)
			}
			if have != c.want || !strings.Contains(why, c.reason) {
				t.Errorf("Choose = %s because %q, want %s because %q", have, why, c.want, c.reason)
			}
		})
	}
}

// A place of this machine is never followed by one elsewhere, whatever order the operator has.
func TestChoose_never_falls_back_to_a_machine_elsewhere(t *testing.T) {
	list := places()
	slices.Reverse(list)
	r := orgconfig.New(orgconfig.Config{Places: list,
		Sandboxes: kept{{Type: haft.SandboxE2B, AllowRemote: true}}})
	got, err := r.Choose(t.Context(), orgconfig.Ask{Org: "acme", Code: true})
	if err != nil || !slices.Equal(got.Types, []haft.SandboxType{haft.SandboxGVisor}) ||
		got.Shown != "" {
		t.Errorf("Choose = %+v, %v", got, err)
	}
}

// An approver is shown all places elsewhere where the code may go, and nothing new for a place of this machine.
func TestChoose_shows_where_code_may_go(t *testing.T) {
	list := places()
	list[1], list[3] = orgconfig.Place{Type: haft.SandboxModal, Remote: true, Level: level(haft.LevelMachine)}, list[1]
	both := kept{{Type: haft.SandboxE2B, AllowRemote: true}, {Type: haft.SandboxModal, AllowRemote: true}}
	for name, c := range map[string]struct {
		call, tool string
		kept       kept
		want       string
	}{
		"two elsewhere":           {"", "", both, "e2b or modal"},
		"auto by the call":        {"auto", "gvisor", both, "e2b or modal"},
		"auto by the tool":        {"", "auto", both[:1], "e2b"},
		"auto, and may not leave": {"auto", "", nil, ""},
		"named":                   {"gvisor", "", both, "gvisor"},
	} {
		r := orgconfig.New(orgconfig.Config{Sandboxes: c.kept, Places: list})
		got, err := r.Choose(t.Context(), orgconfig.Ask{Org: "acme", Code: true, Call: c.call, Tool: c.tool})
		if err != nil || got.Shown != c.want {
			t.Errorf("%s: %+v shows %q, want %q: %v", name, got.Types, got.Shown, c.want, err)
		}
	}
}

// Where there is nothing but machines elsewhere, an organisation that does not allow them has no sandbox.
func TestChoose_refuses_what_may_not_leave(t *testing.T) {
	list := slices.DeleteFunc(places(), func(p orgconfig.Place) bool { return !p.Remote })
	r := orgconfig.New(orgconfig.Config{Places: list, Sandboxes: kept{}})
	got, err := r.Choose(t.Context(), orgconfig.Ask{Org: "acme", Code: true})
	if haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Choose = %+v, %v", got, err)
	}
}

// A call gets the packages of the template that it names besides those of the configuration, which stays as it is.
func TestChoose_adds_a_template(t *testing.T) {
	local := haft.SandboxConfig{Type: haft.SandboxLocal, Needs: haft.Requirements{Pip: []string{"a"}},
		Templates: []haft.SandboxTemplate{{Name: "x", Needs: haft.Requirements{Pip: []string{"b"}, NPM: []string{"c"}}},
			{Name: "y"}}}
	remote := haft.SandboxConfig{Type: haft.SandboxE2B, AllowRemote: true}
	r := orgconfig.New(orgconfig.Config{Places: places(), Sandboxes: kept{local, remote}})
	for range 2 {
		// It is the configuration of this machine, not that of a place elsewhere.
		got, err := r.Choose(t.Context(), orgconfig.Ask{Org: "acme", Template: "x", Takes: true})
		if n := got.Config.Needs; err != nil || !slices.Equal(n.Pip, []string{"a", "b"}) ||
			!slices.Equal(n.NPM, []string{"c"}) {
			t.Errorf("Choose = %+v, %v", got, err)
		}
	}
	_, err := r.Choose(t.Context(), orgconfig.Ask{Org: "acme", Template: "z", Takes: true})
	if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), "x, y") {
		t.Errorf("an unknown template: %v", err)
	}
	_, err = r.Choose(t.Context(), orgconfig.Ask{Org: "acme", Template: "x", Code: true})
	if haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a template for a tool that has packages of its own: %v", err)
	}
}

// Nobody is made to believe that a tool that is no script runs in a sandbox where it does not. Built-in tools that run
// code run in every sandbox of this machine; the others take no name from a call, and need none from agent and
// organisation.
func TestChoose_of_a_tool_that_is_no_script(t *testing.T) {
	leave := haft.SandboxConfig{Type: haft.SandboxE2B, AllowRemote: true, Needs: haft.Requirements{Pip: []string{"a"}}}
	away, preferred := leave, haft.SandboxConfig{Type: haft.SandboxGVisor, Default: true}
	away.Default = true
	code := ask{Code: true, Here: true}
	for name, c := range map[string]struct {
		ask    ask
		kept   kept
		want   string // types, or the code of the error
		reason string
	}{
		"code":                     {code, kept{leave}, "local", "auto"},
		"code by the call":         {ask{Code: true, Here: true, Call: "gvisor"}, nil, "gvisor", "by the call"},
		"code by the agent":        {ask{Code: true, Here: true, Agent: "gvisor"}, nil, "gvisor", "by the agent"},
		"code by the organisation": {code, kept{preferred}, "gvisor", "default of the organisation"},
		"code by isolation":        {ask{Code: true, Here: true, Level: haft.LevelKernel}, nil, "gvisor", "auto"},
		"code, the call before it": {ask{Code: true, Here: true, Call: "local"}, kept{away}, "local", "by the call"},
		"code elsewhere": {ask{Code: true, Here: true, Call: "e2b"}, kept{leave}, "invalid",
			"local or gvisor"},
		"code elsewhere by the agent": {ask{Code: true, Here: true, Agent: "e2b"}, kept{leave}, "invalid",
			"by the agent"},
		"code elsewhere by default":   {code, kept{away}, "invalid", "default of the organisation"},
		"code, missing":               {ask{Code: true, Here: true, Call: "modal"}, nil, "invalid", "no client"},
		"no code":                     {ask{}, kept{leave}, "local", ""},
		"no code by the agent":        {ask{Agent: "e2b"}, kept{leave}, "local", ""},
		"no code by the organisation": {ask{}, kept{away}, "local", ""},
		"no code, auto":               {ask{Call: "auto"}, nil, "local", ""},
		"no code, here":               {ask{Call: "gvisor"}, nil, "invalid", "no sandbox that can be chosen"},
		"no code, local":              {ask{Call: "local"}, nil, "invalid", "no sandbox that can be chosen"},
		"no code, elsewhere":          {ask{Call: "e2b"}, kept{leave}, "invalid", "no sandbox that can be chosen"},
		"no code, unknown":            {ask{Call: "moon"}, nil, "invalid", "no such sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := orgconfig.New(orgconfig.Config{Sandboxes: c.kept, Places: places()}).Choose(t.Context(), c.ask)
			have, why := "", got.Reason
			for _, typ := range got.Types {
				have += string(typ)
			}
			if err != nil {
				have, why = string(haft.CodeOf(err)), haft.MessageOf(err)
			}
			if have != c.want || !strings.Contains(why, c.reason) || err == nil && len(got.Config.Needs.Pip) > 0 {
				t.Errorf("Choose = %s because %q, want %s because %q: %+v", have, why, c.want, c.reason, got.Config)
			}
		})
	}
}

// The templates that E2B's API keeps are those of the sandbox that the server takes by itself. They hold in another
// one that the organisation prefers.
func TestChoose_template_of_the_own_sandbox(t *testing.T) {
	own := haft.SandboxConfig{Type: haft.SandboxLocal, Templates: []haft.SandboxTemplate{
		{Name: "mine", Needs: haft.Requirements{Pip: []string{"a"}}}}}
	r := orgconfig.New(orgconfig.Config{Places: places(),
		Sandboxes: kept{own, {Type: haft.SandboxGVisor, Default: true}}})
	c, err := r.Choose(t.Context(), ask{Code: true, Here: true, Takes: true, Template: "mine"})
	if err != nil || len(c.Types) != 1 || c.Types[0] != haft.SandboxGVisor || len(c.Config.Needs.Pip) != 1 {
		t.Errorf("the choice is %+v, %v", c, err)
	}
	_, err = r.Choose(t.Context(), ask{Code: true, Here: true, Takes: true, Template: "mine", Call: "gvisor"})
	if haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a template that the named sandbox does not have: %v", err)
	}
}

// What a call names is for its own tool, and not for one that follows it and runs in no sandbox.
func TestAskOf_forgets_the_name_of_the_call_before(t *testing.T) {
	r := orgconfig.New(orgconfig.Config{Places: places(), Sandboxes: kept{}})
	after := haft.Call{Principal: haft.Principal{Org: "acme"}, Sandbox: "gvisor", Parent: "before"}
	fetch := haft.Tool{Name: "fetch", Version: haft.Version{Kind: haft.KindMCP}}
	if a := r.AskOf(after, fetch, nil, ""); a.Call != "" {
		t.Errorf("a tool of an MCP server is to run in %q", a.Call)
	}
	fetch.Version.Kind = haft.KindPython
	if a := r.AskOf(after, fetch, nil, ""); a.Call != "gvisor" {
		t.Errorf("a script is to run in %q", a.Call)
	}
}

// A place that turns out not to run anything is refused when it is named, before a call begins. It is tried for names
// only: auto finds out by running.
func TestChoose_tries_a_named_place(t *testing.T) {
	list, tries := places(), 0
	var fails error
	list[2].Try = func(context.Context) error { tries++; return fails }
	r := orgconfig.New(orgconfig.Config{Places: list, Sandboxes: kept{}})
	for _, c := range []struct {
		fails error
		ask   ask
		want  haft.Code
		tries int
	}{
		{nil, ask{Code: true, Call: "gvisor"}, "", 1},
		{nil, ask{Code: true}, "", 1},
		{&haft.Error{Code: haft.CodeUnavailable, Message: "see haft doctor"}, ask{Code: true, Call: "gvisor"},
			haft.CodeInvalid, 2},
		{&haft.Error{Code: haft.CodeUnavailable}, ask{Code: true, Here: true, Agent: "gvisor"}, haft.CodeInvalid, 3},
		{context.Canceled, ask{Code: true, Tool: "gvisor"}, haft.CodeInternal, 4},
	} {
		fails = c.fails
		got, err := r.Choose(t.Context(), c.ask)
		if haft.CodeOf(err) != c.want || tries != c.tries || err != nil && len(got.Types) > 0 ||
			!strings.Contains(haft.MessageOf(err), haft.MessageOf(fails)) {
			t.Errorf("%+v: Choose = %+v, %v after %d tries", c.ask, got, err, tries)
		}
	}
}

// Modal is used where it is named, or where nothing before it is isolated enough; never without leave.
func TestChoose_modal_is_last(t *testing.T) {
	list := slices.DeleteFunc(places(), func(p orgconfig.Place) bool { return p.Type == haft.SandboxModal })
	list = append(list, orgconfig.Place{Type: haft.SandboxModal, Remote: true, Level: level(haft.LevelMachine)})
	leave := kept{{Type: haft.SandboxModal, AllowRemote: true}}
	for name, c := range map[string]struct {
		ask  ask
		kept kept
		want string
	}{
		"named by the tool":        {ask{Tool: "modal"}, leave, "modal"},
		"named without leave":      {ask{Tool: "modal"}, nil, "denied"},
		"leave alone":              {ask{}, leave, "local"},
		"isolation of a machine":   {ask{Level: haft.LevelMachine}, leave, "modal"},
		"it needs hosts":           {ask{Level: haft.LevelMachine, Local: true}, leave, "local"},
		"named, and hosts, denied": {ask{Tool: "modal", Local: true}, leave, "denied"},
	} {
		c.ask.Org, c.ask.Code = "acme", true
		got, err := orgconfig.New(orgconfig.Config{Sandboxes: c.kept, Places: list}).Choose(t.Context(), c.ask)
		have := string(haft.CodeOf(err))
		if err == nil {
			have = string(got.Types[0])
		}
		if have != c.want {
			t.Errorf("%s: %s because %q, want %s", name, have, got.Reason, c.want)
		}
	}
}

// Only the built-in tools that run code are asked about as tools that run code, and they stay on this machine.
func TestAskOf_marks_tools_that_run_code(t *testing.T) {
	r := orgconfig.New(orgconfig.Config{RunsCode: func(tool string) bool { return tool == "run_code" }})
	agent := &haft.Agent{Sandbox: "gvisor"}
	for _, c := range []struct {
		name       string
		kind       haft.Kind
		code, here bool
	}{{"add", haft.KindPython, true, false}, {"run_code", haft.KindBuiltin, true, true},
		{"web_search", haft.KindBuiltin, false, true}, {"run_code", haft.KindMCP, false, false}} {
		tool := haft.Tool{Name: c.name, Version: haft.Version{Kind: c.kind}}
		got := r.AskOf(haft.Call{Sandbox: "local"}, tool, agent, "")
		if got.Code != c.code || got.Here != c.here || got.Call != "local" || got.Agent != "gvisor" {
			t.Errorf("%s of %s: %+v", c.name, c.kind, got)
		}
	}
	none := orgconfig.New(orgconfig.Config{}).AskOf(haft.Call{}, haft.Tool{Name: "run_code",
		Version: haft.Version{Kind: haft.KindBuiltin}}, nil, "")
	if none.Code {
		t.Error("without a list of them, a built-in tool runs code")
	}
}

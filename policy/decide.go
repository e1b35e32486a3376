package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"haft/internal/jsontree"

	"haft"
)

// A Request is what a decision is about.
type Request struct {
	// Principal has the id of its agent.
	Principal haft.Principal
	// AgentName is the name of that agent. Rules name an agent by either. Empty
	// means that the principal's agent is known by what it is called there only.
	AgentName string
	// Tool is in the version that would run.
	Tool haft.Tool
	// Current is the current version of the tool, if another one would run: the
	// rules that concern either of them hold. Nil means that Tool is in it.
	Current *haft.Version
	// Pins says that the caller chose the version, which a rule has to let it do
	// where Current is set.
	Pins bool
	// Args are the arguments, an object. None are an empty one.
	Args json.RawMessage
	// Tree is Args as a tree, for who has read them already. It is not changed. Nil means that Args
	// is read.
	Tree *jsontree.Object
	// Annotations are what the tool says of itself.
	Annotations haft.Annotations
	// Workspace is that of the call; nil means none.
	Workspace *haft.CallWorkspace
	// Requirements are the packages that the call brings, and not those of its tool.
	Requirements haft.Requirements
	// Scope are the permissions that the credential is confined to. Nil means
	// that it is not, and an empty list that it may call nothing. A scope never
	// allows anything by itself.
	Scope []string
}

// current is the request as it would be for the current version.
func (r *Request) current() *Request {
	c := *r
	c.Tool.Version, c.Annotations, c.Current, c.Pins = *r.Current, r.Current.Annotations, nil, false
	return &c
}

// A Decision says whether a call may run and within which bounds, and why. The
// zero value denies.
type Decision struct {
	Effect Effect `json:"effect"`
	// Rule is the rule that decided; empty if none did.
	Rule string `json:"rule,omitempty"`
	// Reason is fit for the caller.
	Reason string `json:"reason"`
	// Problems are the rules that could not be evaluated. Any of them denies.
	Problems []Problem `json:"problems,omitempty"`
	// Considered are the rules that matched or could not be evaluated, and of
	// [Policy.Explain] all rules.
	Considered []Considered `json:"considered,omitempty"`

	// The rest is empty if Effect is deny. All of it holds at once.

	Asks         []Ask         `json:"asks,omitempty"`
	Rates        []Rate        `json:"rates,omitempty"`
	Concurrency  []Concurrency `json:"concurrency,omitempty"`
	Quotas       []Quota       `json:"quotas,omitempty"`
	Networks     []Network     `json:"networks,omitempty"`
	MinIsolation haft.Level    `json:"min_isolation,omitempty"`
	// Redact are JSON Pointers, with * for any key, of arguments that must not
	// be seen in audit, events and requests for approval: [Decision.Redacted].
	Redact []string `json:"redact,omitempty"`
}

// A Problem is a rule that could not be evaluated.
type Problem struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Considered is one rule and what became of it.
type Considered struct {
	Rule   string `json:"rule"`
	Effect Effect `json:"effect"`
	// Line is where the rule stands in its document; 0 if it is not from one.
	Line    int    `json:"line,omitempty"`
	Matched bool   `json:"matched"`
	Why     string `json:"why"`
}

// Err returns the error for a caller whose call is denied, and nil if it may run
// or may be approved.
func (d Decision) Err() error {
	if d.Effect == Allow || d.Effect == NeedsApproval {
		return nil
	}
	e := &haft.Error{Code: haft.CodeDenied, Message: cmp.Or(d.Reason, "nothing was decided")}
	var causes []error
	for _, p := range d.Problems {
		causes = append(causes, fmt.Errorf("rule %s: %s", p.Rule, p.Message))
	}
	e.Err = errors.Join(causes...)
	return e
}

// Decide decides a request. Equal policies and requests give equal decisions.
func (p *Policy) Decide(req Request) Decision { return p.decide(req, false) }

// Explain decides a request and names every rule there is, with the reason why
// it matched or not.
func (p *Policy) Explain(req Request) Decision { return p.decide(req, true) }

// decision is a Decision in the making.
type decision struct {
	Decision
	req         *Request
	all         bool // keep also what did not match
	denies      []denial
	allow       string // the first rule that allows
	pin         bool   // a rule that allows lets the caller choose this version
	namesDigest bool   // a rule that allows has the digest of this version
	// approval names the approvers of calls whose tool itself requires approval. The last
	// document that has it counts, which is the organisation's.
	approval *Ask
}

// denial is a reason to deny.
type denial struct{ rule, reason string }

// decide does the work of Decide and Explain. Every rule is looked at: what comes
// first must not hide what comes later.
func (p *Policy) decide(req Request, all bool) Decision {
	d := p.gather(&req, all)
	if req.Current != nil {
		d.join(p.gather(req.current(), all))
	}
	return d.result()
}

// gather holds a request against every rule, for the one version of its Tool.
func (p *Policy) gather(req *Request, all bool) *decision {
	d := &decision{req: req, all: all}
	d.applyBuiltin()
	e := &evaluation{req: req}
	if p != nil {
		for i := range p.layers {
			d.layer(&p.layers[i], e)
		}
	}
	if req.Tool.Version.Settings.RequiresApproval {
		a := *d.approval
		a.Rule, a.Reason = "haft/tool", "the tool requires approval"
		d.Asks = append(d.Asks, a)
	}
	if p.isSolo(req.Principal.Org, req.Principal.User) {
		for i := range d.Asks {
			d.Asks[i].Self = true
		}
	}
	return d
}

// consider notes what became of a rule.
func (d *decision) consider(c Considered) {
	if c.Matched || d.all {
		d.Considered = append(d.Considered, c)
	}
}

// problem notes a rule that could not be evaluated.
func (d *decision) problem(c Considered, message string) {
	d.Problems = append(d.Problems, Problem{c.Rule, message})
	c.Why = "it cannot be evaluated: " + message
	d.Considered = append(d.Considered, c)
}

// applyBuiltin holds the request against what no document changes.
func (d *decision) applyBuiltin() {
	r := d.req
	note := func(id string, effect Effect, why string) {
		d.consider(Considered{Rule: "haft/" + id, Effect: effect, Matched: true, Why: why})
		if effect == Deny {
			d.denies = append(d.denies, denial{"haft/" + id, why})
		}
	}
	if err := r.Principal.Check(); err != nil {
		note("principal", Deny, haft.MessageOf(err))
	}
	if r.Tool.Org != "" && r.Tool.Org != r.Principal.Org {
		note("foreign", Deny, "the tool belongs to another organisation")
	}
	if r.Tool.Disabled {
		note("disabled", Deny, "the tool is disabled")
	}
	d.scope(note)
	d.approval = &Ask{Roles: []string{DefaultApprover}}
	if r.Tool.Version.Settings.RequiresApproval {
		note("tool", NeedsApproval, "the tool requires approval")
	}
	d.MinIsolation = r.Tool.Version.Settings.MinIsolation
}

// scope holds the tool against what the credential is confined to.
func (d *decision) scope(note func(id string, effect Effect, why string)) {
	if d.req.Scope == nil {
		return
	}
	found := false
	for _, text := range d.req.Scope {
		perm, err := ParsePermission(text)
		if err != nil {
			d.problem(Considered{Rule: "haft/scope", Effect: Deny}, haft.MessageOf(err))
			continue
		}
		found = found || perm.Covers(d.req.Tool)
	}
	if !found {
		note("scope", Deny, "the credential has no permission for the tool")
	}
}

// layer holds the request against the rules of one document.
func (d *decision) layer(l *layer, e *evaluation) {
	if l.org != "" && l.org != d.req.Principal.Org {
		d.problem(Considered{Rule: l.ref("org"), Effect: Deny}, "the policy is that of another organisation")
		return
	}
	for i := range l.rules {
		r := &l.rules[i]
		matched, why, err := r.matches(d.req, e)
		c := Considered{Rule: l.ref(r.id), Effect: r.effect, Line: r.line, Matched: matched, Why: why}
		if err != nil {
			d.problem(c, haft.MessageOf(publicError(err)))
			continue
		}
		d.consider(c)
		if matched {
			d.apply(l, r)
		}
	}
	if l.approval != nil {
		d.approval = l.approval
	}
}

// publicError makes the text of an error of this package one that may be shown. Errors
// of evaluations hold no values.
func publicError(err error) error {
	if _, ok := errors.AsType[*haft.Error](err); ok {
		return err
	}
	return &haft.Error{Code: haft.CodeDenied, Message: err.Error()}
}

// apply adds what a matching rule says.
func (d *decision) apply(l *layer, r *rule) {
	ref := l.ref(r.id)
	switch r.effect {
	case Deny:
		d.denies = append(d.denies, denial{ref, cmp.Or(r.reason, "the rule "+ref+" forbids it")})
		return
	case Allow:
		d.allow = cmp.Or(d.allow, ref)
		d.pin, d.namesDigest = d.pin || r.mayPin(d.req), d.namesDigest || r.namesDigest(d.req)
	case NeedsApproval:
		a := *cmp.Or(r.ask, l.approval, &Ask{Roles: []string{DefaultApprover}})
		a.Rule, a.Reason = ref, r.reason
		d.Asks = append(d.Asks, a)
	}
	if r.rate != nil {
		x := r.rate.limit
		x.Rule, x.Key = ref, key("rate", ref, r.rate.by, l.forced, d.req)
		d.Rates = append(d.Rates, x)
	}
	if r.concurrency != nil {
		x := r.concurrency.limit
		x.Rule, x.Key = ref, key("concurrency", ref, r.concurrency.by, l.forced, d.req)
		d.Concurrency = append(d.Concurrency, x)
	}
	if r.quota != nil {
		x := r.quota.limit
		x.Rule, x.Key = ref, key("quota", ref, r.quota.by, l.forced, d.req)
		d.Quotas = append(d.Quotas, x)
	}
	if r.network != nil {
		d.Networks = append(d.Networks, Network{ref, r.network})
	}
	d.MinIsolation = stronger(d.MinIsolation, r.minIsolation)
	for _, p := range r.redact {
		d.Redact = append(d.Redact, p.String())
	}
}

// result makes one decision of what was gathered: a problem denies, a deny
// wins, nothing runs that is not allowed, and an ask makes it wait.
func (d *decision) result() Decision {
	out := d.Decision
	deny := func(rule, reason string) Decision {
		return Decision{Effect: Deny, Rule: rule, Reason: reason, Problems: out.Problems, Considered: out.Considered,
			Redact: out.Redact}
	}
	switch {
	case len(d.denies) > 0:
		return deny(d.denies[0].rule, d.denies[0].reason)
	case len(d.Problems) > 0:
		return deny(d.Problems[0].Rule, "the rule "+d.Problems[0].Rule+" cannot be evaluated: "+d.Problems[0].Message)
	case d.allow == "":
		return deny("", "no rule allows it")
	case len(d.Asks) > 0:
		out.Effect, out.Rule = NeedsApproval, d.Asks[0].Rule
		out.Reason = cmp.Or(d.Asks[0].Reason, "the rule "+out.Rule+" demands approval")
		return out
	}
	out.Effect, out.Rule, out.Reason = Allow, d.allow, "the rule "+d.allow+" allows it"
	return out
}

package engine

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"maps"
	"slices"
	"sync"

	"haft"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/policy"
)

// redaction knows what is secret in a call, and makes what removes it.
type redaction struct {
	cfg     *Config
	store   *store.Store
	digests *digests

	plain *secret.Redactor // for calls without secrets of their own
}

// digests make digests of arguments, results and terms.
type digests struct {
	cfg *Config

	macs sync.Pool // of *digester
}

// NotKept replaces what is not kept.
const NotKept = "[not kept]"

// longValue is from how many bytes on a value of a call's environment is taken for
// a secret whatever its name: shorter ones are words such as "production", and to
// remove those from a result would destroy it.
const longValue = 16

// secretive reports whether a variable that came with a call is to be treated as
// a secret.
func (rd *redaction) secretive(name, value string) bool {
	return rd.cfg.Names.Sensitive(name) || len(value) >= longValue
}

// redactor returns what removes the secrets of a call from all that leaves: all
// that was leased for it, the variables of its agent, what is secretive in its
// own, and what looks like a key wherever it comes from.
func (rd *redaction) redactor(l *lease, agent, call map[string]string) *secret.Redactor {
	var values []secret.Named
	if l != nil {
		values = slices.Clone(l.fetched)
	}
	for name, text := range agent {
		values = append(values, secret.Named{Name: name, Value: secret.New(text)})
	}
	for name, text := range call {
		if rd.secretive(name, text) {
			values = append(values, secret.Named{Name: name, Value: secret.New(text)})
		}
	}
	switch stored := l != nil && l.stored != nil; {
	case len(values) == 0 && stored:
		return l.stored.cover(rd.cfg.Personal)
	case len(values) == 0:
		return rd.plain
	case stored:
		values = slices.Concat(values, l.stored.Org, l.stored.Agent, l.stored.Hidden)
	}
	return secret.NewRedactor(secret.Config{Values: values, Formats: true, Personal: rd.cfg.Personal})
}

// kept returns a call as it may be kept, and whether that is less than the whole:
// arguments whose name means a secret are replaced, and so are secretive
// variables.
func (rd *redaction) kept(c haft.Call) (haft.Call, bool) {
	args, less, err := rd.cfg.Names.Redact(c.Args)
	if err != nil {
		args, less = nil, true // what cannot be read cannot be judged
	}
	c.Args = args
	if len(c.Env) > 0 {
		env := make(map[string]string, len(c.Env))
		for k, v := range c.Env {
			if env[k] = v; rd.secretive(k, v) {
				env[k], less = NotKept, true
			}
		}
		c.Env = env
	}
	return c, less
}

// keep brings the record up to what is known of the call by now: the arguments
// as they will run, without what policy redacts and without secrets.
func (rd *redaction) keep(ex *execution) {
	args := ex.args
	if args == nil {
		args = ex.call.Args
	}
	before := args
	if ex.args == nil {
		args = ex.inputScreened(args)
	}
	if len(ex.decision.Redact) > 0 {
		var err error
		if args, err = ex.decision.Redacted(args); err != nil {
			args = nil
		}
	}
	if args != nil {
		var err error
		if args, _, err = rd.cfg.Names.Redact(args); err != nil {
			args = nil
		}
	}
	if ex.lease.blind {
		args = nil // nobody can tell what in it is a secret
	}
	if args != nil {
		args, _ = ex.redactor.JSON(args)
	}
	ex.rec.Call.Args = args
	ex.rec.Call.Env = ex.cleaned(ex.rec.Call.Env)
	ex.rec.Call.Tool = ex.named().Tool
	if ex.agent == nil {
		ex.rec.Call.Principal.Agent = ex.redactor.Text(ex.rec.Call.Principal.Agent)
	}
	_, less := rd.kept(haft.Call{Env: ex.call.Env})
	ex.rec.Redacted = less || string(args) != string(before)
	ex.rec.ArgsDigest = rd.digests.digest("args", before)
	if ex.tool != nil {
		ex.rec.ToolID, ex.rec.Digest = ex.tool.Tool.ID, ex.tool.Tool.Version.Digest
	}
}

// inputScreened returns arguments that never passed the input filters as they may be
// kept: what is masked is replaced, and what is refused is not kept at all.
func (ex *execution) inputScreened(args json.RawMessage) json.RawMessage {
	if ex.rules == nil || ex.tool == nil || len(args) == 0 {
		return args
	}
	ctx, stop := context.WithTimeout(context.Background(), screenGrace) //nolint:forbidigo // of its own
	defer stop()
	out, err := ex.rules.Screen(ex.request(args), policy.Input).JSON(ctx, args)
	if err != nil {
		return nil
	}
	return out.Value
}

// cleaned returns env without stored values, which may come by another name. The
// map itself is others' too.
func (ex *execution) cleaned(env map[string]string) map[string]string {
	var out map[string]string
	for name, text := range env {
		if ex.lease.blind || ex.redactor.Text(text) != text {
			if out == nil {
				out = maps.Clone(env)
			}
			out[name] = NotKept
		}
	}
	if out == nil {
		return env
	}
	return out
}

// digest identifies a value without showing it.
func (d *digests) digest(what string, raw json.RawMessage) string {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	var text [len("hmac-sha256:") + 2*sha256.Size]byte
	if len(d.cfg.DigestKey) == 0 {
		sum := sha256.Sum256(raw)
		return string(hex.AppendEncode(append(text[:0], "sha256:"...), sum[:]))
	}
	m, ok := d.macs.Get().(*digester)
	if ok {
		m.mac.Reset() // which is cheaper than to begin with the key again
	} else {
		m = &digester{mac: hmac.New(sha256.New, d.cfg.DigestKey)}
	}
	defer d.macs.Put(m)
	m.room = append(append(m.room[:0], what...), 0)
	m.mac.Write(m.room) // hash.Hash never fails
	m.mac.Write(raw)
	m.room = m.mac.Sum(m.room[:0])
	return string(hex.AppendEncode(append(text[:0], "hmac-sha256:"...), m.room))
}

// digester makes digests with the key, one after the other.
type digester struct {
	mac  hash.Hash
	room []byte
}

// binds is the digest that ties an approval to a version and its arguments.
func (d *digests) binds(version string, args json.RawMessage) string {
	return d.digest("binds", append([]byte(version+"\x00"), args...))
}

// request is what the execution asks policy, with the given arguments. Everything that
// decides about a call asks with it: the stages, the answers of approvers and Explain.
// A version is the caller's choice if the call came with it; one that an approval or a
// crash left behind is not.
func (ex *execution) request(args json.RawMessage) policy.Request {
	t := ex.tool.Tool
	req := policy.Request{
		Principal: ex.call.Principal, Tool: t, Current: ex.tool.Current, Pins: ex.rec.Call.Digest != "", Args: args,
		Annotations: t.Version.Annotations, Scope: ex.call.Principal.Scope,
	}
	if ex.agent != nil {
		req.Principal.Agent, req.AgentName = string(ex.agent.ID), ex.agent.Name
	}
	return req
}

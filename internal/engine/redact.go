package engine

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"sync"

	"haft"
	"haft/internal/callenv"
	"haft/internal/store"
	"haft/policy"
)

// redaction knows what is secret in a call, and makes what removes it.
type redaction struct {
	cfg     *Config
	store   *store.Store
	digests *digests
	env     *callenv.Builder
}

// digests make digests of arguments, results and terms.
type digests struct {
	cfg *Config

	macs sync.Pool // of *digester
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
	env, lessEnv := rd.env.Kept(c.Env)
	c.Env = env
	return c, less || lessEnv
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
	if ex.env.Blind {
		args = nil // nobody can tell what in it is a secret
	}
	if args != nil {
		args, _ = ex.env.Redactor.JSON(args)
	}
	ex.rec.Call.Args = args
	ex.rec.Call.Env = ex.env.Clean(ex.rec.Call.Env)
	ex.rec.Call.Tool = ex.named().Tool
	if ex.agent == nil {
		ex.rec.Call.Principal.Agent = ex.env.Redactor.Text(ex.rec.Call.Principal.Agent)
	}
	_, less := rd.env.Kept(ex.call.Env)
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
	m.buf = append(append(m.buf[:0], what...), 0)
	m.mac.Write(m.buf) // hash.Hash never fails
	m.mac.Write(raw)
	m.buf = m.mac.Sum(m.buf[:0])
	return string(hex.AppendEncode(append(text[:0], "hmac-sha256:"...), m.buf))
}

// digester makes digests with the key, one after the other.
type digester struct {
	mac hash.Hash
	buf []byte
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

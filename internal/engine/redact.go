package engine

import (
	"context"
	"encoding/json"
	"slices"

	"haft"
	"haft/internal/callenv"
	"haft/internal/filestore"
	"haft/internal/jsontree"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/policy"
	"haft/schema"
)

// redaction knows what is secret in a call, and makes what removes it.
type redaction struct {
	cfg     *Config
	store   *store.Store
	digests *secret.Digester
	env     *callenv.Builder
}

// kept returns a call as it may be kept before anything is known of it, and whether that is less than
// the whole: without arguments, which [redaction.keep] adds, and without secretive variables.
func (rd *redaction) kept(c haft.Call) (kept haft.Call, less bool) {
	c.Args = nil
	c.Env, less = rd.env.Kept(c.Env)
	c.Files = filestore.WithoutContent(c.Files)
	return c, less
}

// namesSecret reports whether a key in a tree means a secret.
func (rd *redaction) namesSecret(tree any) bool {
	switch v := tree.(type) {
	case *schema.Object:
		return slices.ContainsFunc(v.Keys(), func(key string) bool {
			return rd.cfg.Names.Sensitive(key) || rd.namesSecret(v.Value(key))
		})
	case []any:
		return slices.ContainsFunc(v, rd.namesSecret)
	}
	return false
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
		args = ex.inputScreened(schema.ArgumentsObject(args))
	}
	if len(ex.decision.Redact) > 0 {
		var err error
		if args, err = ex.decision.Redacted(args); err != nil {
			args = nil
		}
	}
	if args != nil && (ex.args == nil || ex.tree == nil || rd.namesSecret(ex.tree)) {
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
	ex.rec.ArgsDigest = rd.digests.Digest("args", before)
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
	out, err := ex.rules.Screen(ex.request(jsontree.Document{Text: args}), policy.Input).JSON(ctx, args)
	if err != nil {
		return nil
	}
	return out.Value
}

// request is what the execution asks policy, with the given arguments. Everything that
// decides about a call asks with it: the stages, the answers of approvers and Explain.
// A version is the caller's choice if the call came with it; one that an approval or a
// crash left behind is not.
func (ex *execution) request(args jsontree.Document) policy.Request {
	t := ex.tool.Tool
	req := policy.Request{
		Principal: ex.call.Principal, Tool: t, Current: ex.tool.Current, Pins: ex.rec.Call.Digest != "",
		Args: args.Text, Tree: args.Tree, Annotations: t.Version.Annotations, Scope: ex.call.Principal.Scope,
		Workspace: ex.call.Workspace, Requirements: ex.call.Requirements,
	}
	if ex.agent != nil {
		req.Principal.Agent, req.AgentName = string(ex.agent.ID), ex.agent.Name
	}
	return req
}

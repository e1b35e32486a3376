// Package place runs a call in the sandbox that was chosen for it, and in the next one if that is not available.
package place

import (
	"context"
	"errors"
	"path"
	"slices"

	"haft"
	"haft/executor"
	"haft/sandbox"
)

// A Place runs scripts in one kind of sandbox.
type Place struct {
	Executor executor.Executor
	// Remote says that it is not on this machine.
	Remote bool
}

// An Executor runs scripts in the place that their request names. It implements [executor.Executor].
type Executor struct {
	// Home runs requests that name no place.
	Home haft.SandboxType
	// Places are those that are available, among them Home.
	Places map[haft.SandboxType]Place
}

var (
	_ executor.Executor = (*Executor)(nil)
	_ executor.Preparer = (*Executor)(nil)
)

// Execute implements [executor.Executor]. A place that is not available is left for the next one before the tool has
// begun, and never after.
func (x *Executor) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	types := req.Places
	if len(types) == 0 {
		types = []haft.SandboxType{x.Home}
	}
	reason := req.PlaceReason
	for i, t := range types {
		p, ok := x.Places[t]
		if !ok {
			return nil, &haft.Error{Code: haft.CodeUnavailable,
				Message: "the sandbox " + string(t) + " is not available"}
		}
		res, err := p.Executor.Execute(ctx, p.request(req))
		if err == nil {
			if res.Sandbox.Provider == string(t) {
				res.Sandbox.Reason = reason
			}
			return res, nil
		}
		if i == len(types)-1 || ctx.Err() != nil || !away(err) {
			return nil, err
		}
		reason += "; " + string(t) + " was not available: " + haft.MessageOf(err)
	}
	return nil, errors.New("a call has no place") // types is not empty
}

// away reports whether a place was not available and nothing of the tool has run.
func away(err error) bool {
	code := haft.CodeOf(err)
	return (code == haft.CodeUnavailable || code == haft.CodeRateLimited) && !errors.Is(err, sandbox.ErrLost) &&
		!errors.Is(err, executor.ErrMaybeRan)
}

// remoteLayers is where packages are in a machine elsewhere: in a directory that any user of it can make.
const remoteLayers = "/tmp/haft-packages/"

// request returns a request as the place takes it.
func (p Place) request(req executor.Request) executor.Request {
	req.Places, req.PlaceReason = nil, ""
	if !p.Remote {
		return req
	}
	req.Layers = slices.Clone(req.Layers)
	for i := range req.Layers {
		req.Layers[i].Inside = remoteLayers + req.Layers[i].Digest + "/" + path.Base(req.Layers[i].Inside)
	}
	return req
}

// Prepare implements [executor.Preparer], for the sandbox of this server.
func (x *Executor) Prepare(ctx context.Context, req executor.Request) executor.Prepared {
	if len(req.Places) > 0 && req.Places[0] != x.Home {
		return nil
	}
	home := x.Places[x.Home]
	next, ok := home.Executor.(executor.Preparer)
	if !ok {
		return nil
	}
	ahead := next.Prepare(ctx, home.request(req))
	if ahead == nil {
		return nil
	}
	return prepared{ahead, string(x.Home)}
}

// prepared is a preparation at home. It is not left for another place: what is at home is there.
type prepared struct {
	executor.Prepared
	name string
}

// Execute implements [executor.Prepared].
func (p prepared) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	reason := req.PlaceReason
	res, err := p.Prepared.Execute(ctx, Place{}.request(req))
	if err == nil && res.Sandbox.Provider == p.name {
		res.Sandbox.Reason = reason
	}
	return res, err
}

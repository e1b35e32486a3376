package app

import (
	"context"
	"errors"

	"haft"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/workspace"
)

// A Mount is a workspace that is open for one run without a service. The zero Mount is that of none.
type Mount struct {
	*workspace.Use
	// Workspace is for the executor.
	Workspace *executor.Workspace
	closers   []func() error
}

// MountWorkspace waits for the workspace of a call, in the store that cfg names. Close the mount.
func MountWorkspace(ctx context.Context, cfg ServiceConfig, c haft.Call, kind haft.Kind) (*Mount, error) {
	m := new(Mount)
	if c.Workspace == nil {
		return m, nil
	}
	db, err := openStore(ctx, cfg, nil)
	if err != nil {
		return nil, err
	}
	all := workspace.New(db, workspace.Config{Dir: cfg.workspaces()})
	m.closers = []func() error{all.Close, db.Close}
	req := executor.Request{Kind: kind}
	c.Workspace, err = all.Bind(ctx, authority.Rules{}, c.Principal, c.Workspace)
	if err == nil {
		m.Use, err = all.Mount(ctx, authority.Rules{}, c, &req, nil)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	m.Workspace = req.Workspace
	return m, nil
}

// Close gives the workspace back.
func (m *Mount) Close() error {
	m.Use.Close(context.Background())
	var errs []error
	for _, c := range m.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

package store

import (
	"context"

	"haft"
)

var sandboxConfigs = &named[haft.SandboxConfig]{
	what: "sandbox configuration", table: "sandbox_configs", key: "type",
	head: func(c *haft.SandboxConfig) head {
		return head{string(c.ID), c.Org, string(c.Type), c.If, c.Created, c.Updated}
	},
	setHead: func(c *haft.SandboxConfig, h head) {
		c.ID, c.If, c.Created, c.Updated = haft.SandboxConfigID(h.id), h.condition, h.created, h.updated
	},
}

// PutSandboxConfig adds a configuration, or replaces the one of that type in its
// organisation if that is what If says, and else returns [haft.CodeConflict]. That
// one keeps its id and the time of its creation. It returns what is kept.
func (s Sandboxes) PutSandboxConfig(ctx context.Context, c haft.SandboxConfig) (*haft.SandboxConfig, error) {
	if err := c.Type.Check(); err != nil {
		return nil, err
	}
	if c.ID == "" {
		c.ID = haft.SandboxConfigID(newID("sandbox_"))
	}
	return sandboxConfigs.put(ctx, s.db, c, nil)
}

// SandboxConfig returns the configuration of that type or id, or
// [haft.CodeNotFound].
func (s Sandboxes) SandboxConfig(ctx context.Context, org, ref string) (*haft.SandboxConfig, error) {
	return sandboxConfigs.byRef(ctx, s.db, org, ref)
}

// SandboxConfigs lists the configurations of an organisation by type. There is at
// most one of each.
func (s Sandboxes) SandboxConfigs(ctx context.Context, org string) ([]haft.SandboxConfig, error) {
	return sandboxConfigs.list(ctx, s.db, org, "", 0)
}

// RemoveSandboxConfig removes the configuration of that id, or returns
// [haft.CodeNotFound], or [haft.CodeConflict] if its revision is not the one of the
// condition.
func (s Sandboxes) RemoveSandboxConfig(ctx context.Context, org string, id haft.SandboxConfigID,
	condition string) error {
	return s.db.write(ctx, "remove the sandbox configuration", func(ctx context.Context, t *tx) error {
		return sandboxConfigs.remove(ctx, t, org, string(id), condition)
	})
}

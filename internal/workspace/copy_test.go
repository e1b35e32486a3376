package workspace_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/workspace"
)

func TestCopies_count_before_they_have_rows(t *testing.T) {
	x := open(t, workspace.Config{Org: 50_000, Quota: haft.WorkspaceSize{Bytes: 30_000}})
	x.check(x.write("f", strings.Repeat("x", 9_000)))
	release, err := workspace.Hold(x.Store, "acme", 30_000)
	x.check(err)
	full, err := workspace.FillCopies(x.Store)
	x.check(err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	_, err = x.AddWorkspace(ctx, ann, haft.NewWorkspace{Name: "fork", From: "w"})
	x.wantCode(err, haft.CodeConflict) // without waiting for a place
	x.wantCode(x.add("w@s", ""), haft.CodeConflict)
	x.wantCode(x.write("g", strings.Repeat("x", 15_000)), haft.CodeConflict)
	full()
	other, err := workspace.Hold(x.Store, "evil", 30_000)
	x.check(err)
	release()
	x.check(x.add("fork", "w"), x.add("w@s", ""))
	other()
	x.check(x.RemoveWorkspace(t.Context(), ann, "fork"), x.RemoveWorkspace(t.Context(), ann, "w@s"))
	release, err = workspace.Hold(x.Store, "acme", 30_000) // nothing is held of the copies before
	x.check(err)
	release()
}

func TestStore_waits_for_a_place(t *testing.T) {
	x := open(t, workspace.Config{})
	x.check(x.write("f", "x"), x.add("w@s", ""))
	copies, err := workspace.FillCopies(x.Store)
	x.check(err)
	looks, err := workspace.FillLooks(x.Store)
	x.check(err)
	for what, do := range map[string]func(context.Context) error{
		"fork": func(ctx context.Context) error {
			_, err := x.AddWorkspace(ctx, ann, haft.NewWorkspace{Name: "fork", From: "w"})
			return err
		},
		"restore": func(ctx context.Context) error { return x.RestoreWorkspace(ctx, ann, "w", "w@s") },
		"list": func(ctx context.Context) error {
			_, err := x.WorkspaceFiles(ctx, ann, "w", "")
			return err
		},
		"diff": func(ctx context.Context) error {
			_, err := x.DiffWorkspaces(ctx, ann, "w@s", "w")
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s without a place: %v", what, err)
		}
		cancel()
	}
	if left := x.left(2); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
	copies()
	looks()
	x.check(x.add("fork", "w"), x.RestoreWorkspace(t.Context(), ann, "w", "w@s"))
	if got := x.list(); got == "" {
		t.Error("nothing is listed")
	}
}

func TestCopy_asks_whether_to_go_on(t *testing.T) {
	x := open(t, workspace.Config{})
	x.put("large", strings.Repeat("x", 10_000))
	x.put("d/small", strings.Repeat("x", 2_000))
	asked := 0
	x.check(workspace.CopyTree(t.Context(), x.files, t.TempDir(), 1000, func() error { asked++; return nil }))
	if asked != 12 {
		t.Errorf("it was asked %d times", asked)
	}
	full := errors.New("the disk is full")
	err := workspace.CopyTree(t.Context(), x.files, t.TempDir(), 1000, func() error {
		if asked--; asked < 5 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || asked != 4 {
		t.Errorf("it was asked until %d, %v", asked, err)
	}
}

package sqlite_test

import (
	"context"
	"fmt"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

// What happened to a call is kept in one batch, and is on the disk when Commit
// returns.
func Example() {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{}) // in a directory, if one is named
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	ann := haft.Principal{Org: "acme", User: "ann"}
	err = s.Commit(ctx, store.Batch{
		Records: []haft.Record{{Call: haft.Call{ID: "c1", Tool: "add", Principal: ann}, Status: haft.StatusRunning,
			Created: time.Now()}},
		Audit: []audit.Entry{{Org: "acme", Kind: "call.started", Actor: ann, Call: "c1", Time: time.Now()}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := s.Calls.Record(ctx, "acme", "c1")
	fmt.Println(r.Status, err)
	_, err = s.Calls.Record(ctx, "other", "c1")
	fmt.Println(haft.MessageOf(err))
	// Output:
	// running <nil>
	// there is no such call
}

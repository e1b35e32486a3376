package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"haft"
)

// Many readers of several organisations, whose connections are cut at random, while
// calls run: each gets every event of its organisation once and in order.
func TestEvents_many_readers_that_are_cut_at_random(t *testing.T) {
	const orgs, readers, calls = 4, 8, 15
	both(t, nil, func(t *testing.T, w *world, open func(context.Context, string, string) stream) {
		ctx := within(t)
		who := func(org int) string { return fmt.Sprintf("org%d/root/admin", org) }
		for org := range orgs {
			w.must(201, who(org), "POST", "/v1/tools", draft("f", ""))
		}
		var all sync.WaitGroup
		for org := range orgs {
			for reader := range readers {
				all.Go(func() {
					chance := rand.New(rand.NewPCG(uint64(org), uint64(reader)))
					last, ended, seqs := int64(0), 0, map[haft.CallID]int64{}
					for ended < calls {
						s := open(ctx, who(org), fmt.Sprintf("?after=%d", last))
						for range 1 + chance.IntN(12) {
							e, err := s.next()
							if err != nil {
								t.Errorf("reader %d of org %d: %v", reader, org, err)
								s.close()
								return
							}
							if e.Principal.Org != fmt.Sprintf("org%d", org) || e.Cursor <= last ||
								e.Seq != seqs[e.Call]+1 {
								t.Errorf("reader %d of org %d got %+v after %d", reader, org, e, last)
							}
							last, seqs[e.Call] = e.Cursor, e.Seq
							if e.Type == haft.EventCompleted {
								if ended++; ended == calls {
									break
								}
							}
						}
						s.close()
					}
				})
			}
			all.Go(func() {
				for range calls {
					w.ask(who(org), "POST", "/v1/calls", `{"tool":"f"}`)
				}
			})
		}
		all.Wait()
	})
}

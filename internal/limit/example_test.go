package limit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"haft"
	"haft/internal/limit"
)

func Example() {
	l := limit.New(limit.Config{Running: 16, PerTenant: 4})
	ask := limit.Ask{
		Tenant: "acme",
		Rates:  []limit.Rate{{Key: "acme ada send_mail", PerSecond: 0.5, Burst: 1}},
		Slots:  []limit.Slot{{Key: "acme send_mail", Max: 2}},
	}
	ctx, now := context.Background(), time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

	states, err := l.Take(ctx, ask, now)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("keep:", states[0].Key, states[0].Tokens)

	grant, _, err := l.Enter(ctx, ask)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("running:", l.Stats().Running)
	grant.Leave()

	_, err = l.Take(ctx, ask, now.Add(time.Second))
	fmt.Println(haft.CodeOf(err), err)

	// Output:
	// keep: acme ada send_mail 0
	// running: 1
	// rate_limited too many calls in a short time
}

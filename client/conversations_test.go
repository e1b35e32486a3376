package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/client"
	"haft/internal/servertest"
	"haft/server"
	"haft/server/agentapi"
)

// agentServer is a server over a real memory and fake conversations, with the agent smith.
func agentServer(t *testing.T) (*client.Client, *servertest.Conversations, *httptest.Server) {
	t.Helper()
	_, api := newEngine(t)
	talk := &servertest.Conversations{Agents: api}
	s, err := server.New(api, people{}, server.Config{Resources: []server.Resource{agentapi.New(agentapi.Config{
		Agents: api, Memory: api.Memory, Blocks: api.Memory, Archive: api.Memory, Conversations: talk,
		Models: servertest.Models{}})}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check(t, s.Shutdown(ctx))
		web.Close()
	})
	c := dial(t, client.Config{URL: web.URL, Key: "acme/root/admin"})
	if _, err := c.PutAgent(t.Context(), haft.Principal{}, haft.Agent{Name: "smith"}); err != nil {
		t.Fatal(err)
	}
	return c, talk, web
}

// seen returns what a stream has, and its error.
func seen(events func(func(haft.TurnEvent, error) bool)) (list []string, err error) {
	for e, err := range events {
		switch {
		case err != nil:
			return list, err
		case e.Message != nil:
			list = append(list, e.Message.Text)
		case e.Turn != nil:
			list = append(list, string(e.Turn.Status))
		default:
			list = append(list, "+"+e.Delta)
		}
	}
	return list, nil
}

func TestMemory(t *testing.T) {
	c, _, _ := agentServer(t)
	ctx, who := t.Context(), haft.Principal{}
	b, err := c.Memory.AddBlock(ctx, who, haft.Block{Label: "human", Value: "Ann", Limit: 10, Description: "who"})
	if err != nil || b.Value != "Ann" || b.Limit != 10 || b.Description != "who" {
		t.Fatalf("%+v, %v", b, err)
	}
	value := "Bob"
	if b, err = c.Memory.ChangeBlock(ctx, who, b.ID, haft.BlockChange{Value: &value, Version: b.Version}); err != nil ||
		b.Value != "Bob" {
		t.Errorf("%+v, %v", b, err)
	}
	_, err = c.Memory.ChangeBlock(ctx, who, b.ID, haft.BlockChange{Value: &value, Version: 1})
	if haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("an old version: %v", err)
	}
	check(t, c.Memory.AttachBlock(ctx, who, "smith", b.ID))
	if agents, err := c.Memory.BlockAgents(ctx, who, b.ID); err != nil || len(agents) != 1 {
		t.Errorf("%v, %v", agents, err)
	}
	for i := range 70 { // more than a page of the server
		_, err := c.Memory.AddBlock(ctx, who, haft.Block{Label: fmt.Sprint("b", i)})
		check(t, err)
	}
	for f, want := range map[haft.BlockFilter]int{{Agent: "smith"}: 1, {Label: "b1"}: 1, {Limit: 60}: 60, {}: 71} {
		if list, err := c.Memory.Blocks(ctx, who, f); err != nil || len(list) != want {
			t.Errorf("%+v: %d blocks, %v", f, len(list), err)
		}
	}
	check(t, c.Memory.DetachBlock(ctx, who, "smith", b.ID))
	check(t, c.Memory.RemoveBlock(ctx, who, b.ID))
	if _, err := c.Memory.Block(ctx, who, b.ID); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("it was removed: %v", err)
	}

	p, err := c.Memory.AddPassage(ctx, who, "smith", "it rains", []string{"weather"})
	check(t, err)
	_, err = c.Memory.AddPassage(ctx, who, "smith", "dinner at eight", nil)
	check(t, err)
	for want, f := range map[string]haft.PassageFilter{"it rains": {Query: "rains"}, "dinner at eight": {Newest: true,
		Limit: 1}, "it rains,dinner at eight": {Till: time.Now().Add(time.Hour)}} {
		list, err := c.Memory.Passages(ctx, who, "smith", f)
		texts := []string{}
		for _, p := range list {
			texts = append(texts, p.Text)
		}
		if strings.Join(texts, ",") != want || err != nil {
			t.Errorf("%+v: %v, %v", f, texts, err)
		}
	}
	if tags, err := c.Memory.PassageTags(ctx, who, "smith"); err != nil || !slices.Equal(tags, []string{"weather"}) {
		t.Errorf("%v, %v", tags, err)
	}
	check(t, c.Memory.RemovePassage(ctx, who, "smith", p.ID))
	// ATTACK: an id leads to another path, and removes more than was meant.
	for _, id := range []string{"", ".", ".."} {
		err := errors.Join(c.Memory.RemovePassage(ctx, who, "smith", haft.PassageID(id)))
		if haft.CodeOf(err) != haft.CodeNotFound {
			t.Errorf("the passage %q: %v", id, err)
		}
		if err := c.Memory.DetachBlock(ctx, who, "smith", haft.BlockID(id)); haft.CodeOf(err) != haft.CodeNotFound {
			t.Errorf("the block %q: %v", id, err)
		}
	}
	if _, err := c.Agent(ctx, who, "smith"); err != nil {
		t.Errorf("the agent is gone: %v", err)
	}
}

func TestConversations(t *testing.T) {
	c, talk, web := agentServer(t)
	ctx, who := t.Context(), haft.Principal{}
	got, err := seen(c.Conversations.Send(ctx, who, "smith", haft.NewMessage{Text: "hi", Model: "large"}))
	if err != nil || !slices.Equal(got, []string{"hi", "+you said", "you said hi", "completed"}) {
		t.Fatalf("%q, %v", got, err)
	}
	if got, err := seen(c.Conversations.Send(ctx, who, "smith", haft.NewMessage{Text: "ask"})); err != nil ||
		got[len(got)-1] != "waiting" {
		t.Errorf("%q, %v", got, err)
	}
	for text, code := range map[string]haft.Code{"fail": haft.CodeRateLimited, "crash": haft.CodeInternal,
		"": haft.CodeInvalid} {
		_, err := seen(c.Conversations.Send(ctx, who, "smith", haft.NewMessage{Text: text}))
		if haft.CodeOf(err) != code {
			t.Errorf("%q: %v", text, err)
		}
	}
	one, err := c.Conversations.Turn(ctx, who, "run-1")
	if err != nil || one.Model != "large" {
		t.Errorf("%+v, %v", one, err)
	}
	if list, err := c.Conversations.Turns(ctx, who, "smith", "run-1", 1); err != nil || len(list) != 1 ||
		list[0].ID != "run-2" {
		t.Errorf("%+v, %v", list, err)
	}
	list, err := c.Conversations.Messages(ctx, who, "smith", haft.MessageFilter{Turn: "run-1", Newest: true,
		Roles: []haft.MessageRole{haft.RoleAssistant}, After: 1, Before: 9})
	if err != nil || len(list) != 1 || list[0].Text != "you said hi" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := c.Conversations.Models(ctx, who); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if got, err := seen(c.Conversations.Follow(ctx, who, "run-1")); err != nil || !slices.Equal(got,
		[]string{"completed"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := seen(c.Conversations.Follow(ctx, who, "run-99")); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("no such turn: %v", err)
	}
	// Somebody who cannot act as the agent.
	bob := dial(t, client.Config{URL: web.URL, Key: "acme/bob/user"})
	_, err = seen(bob.Conversations.Send(ctx, who, "smith", haft.NewMessage{Text: "hi"}))
	if haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("by somebody else: %v", err)
	}
	// A loop that is left, and one whose context ends.
	for range c.Conversations.Send(ctx, who, "smith", haft.NewMessage{Text: "hold"}) {
		break
	}
	held, err := c.Conversations.Turns(ctx, who, "smith", "run-3", 10)
	if err != nil || len(held) != 1 {
		t.Fatalf("%+v, %v", held, err)
	}
	short, cancel := context.WithCancel(ctx)
	for e, err := range c.Conversations.Follow(short, who, held[0].ID) {
		if e.Turn != nil {
			cancel()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("the context ended: %v", err)
		}
	}
	cancel()
	check(t, c.Conversations.CancelTurn(ctx, who, held[0].ID))
	talk.Finish(held[0].ID)
}

// A connection that is cut is replaced, and every message comes once.
func TestConversations_survive_cuts(t *testing.T) {
	_, talk, web := agentServer(t)
	target, err := url.Parse(web.URL)
	check(t, err)
	var connections atomic.Int32
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = target.Host
	}, ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }}
	cut := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/messages") {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			go func() {
				select {
				case <-cut:
					cancel()
				case <-ctx.Done():
				}
			}()
			r = r.WithContext(ctx)
		}
		if strings.HasSuffix(r.URL.Path, "/events") && connections.Add(1) == 1 {
			panic(http.ErrAbortHandler) // and it is cut again
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	c := dial(t, client.Config{URL: front.URL, Key: "acme/root/admin"})
	got := []string{}
	for e, err := range c.Conversations.Send(t.Context(), haft.Principal{}, "smith", haft.NewMessage{Text: "hold"}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Delta != "":
			close(cut)
		case e.Message != nil:
			got = append(got, e.Message.Text)
		case e.Turn.Status == haft.TurnRunning: // it has come back
			talk.Finish(e.Turn.ID)
		default:
			got = append(got, string(e.Turn.Status))
		}
	}
	if !slices.Equal(got, []string{"hold", "you said hold", "completed"}) || connections.Load() < 2 {
		t.Errorf("%q over %d more connections", got, connections.Load())
	}
}

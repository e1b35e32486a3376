package conversation_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

// The images in the requests of all turns are bounded: a turn waits for others of its organisation, and is told after a
// while that there are too many. Other organisations do not notice.
func TestImages_of_all_turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turns, each = 10, 7_000_000 // of which 9 are within the bound of an organisation
		data := pngOf(t, each/2)
		w := drawing(t, artifact("1.png", "image/png", data), artifact("2.png", "image/png", data))
		hold := make(chan struct{})
		var mu sync.Mutex
		held, named := map[string]int{}, 0
		w.answer = func(req model.Request) (*model.Answer, error) {
			last := req.Messages[len(req.Messages)-1]
			if last.Role != haft.RoleTool {
				return call("a", `{}`), nil
			}
			mu.Lock()
			held[fmt.Sprint(len(last.Images))]++
			if strings.Contains(last.Text, "not shown, this server is sending too many images now]") {
				named++
			}
			mu.Unlock()
			<-hold
			return say("done"), nil
		}
		p := w.begin(0, func(c *conversation.Config) { c.Agents = twoOrgs{c.Agents} })
		begin := func(who haft.Principal, i int) {
			name := fmt.Sprint("helper", i)
			go listen(w, p.Send(t.Context(), as(who, name), name, haft.NewMessage{Text: "draw"}))
		}
		for i := range turns {
			begin(ann, i)
		}
		synctest.Wait()
		check := func(want string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if got := fmt.Sprint(held, named); got != want {
				t.Errorf("requests by their images, and those that name too many: %s, want %s", got, want)
			}
		}
		check("map[2:9] 0")
		other := haft.Principal{Org: "other", User: "eve"}
		begin(other, turns)
		synctest.Wait()
		check("map[2:10] 0")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		check("map[0:1 2:10] 1")
		close(hold)
		synctest.Wait()
		begin(ann, 0) // what was taken was given back
		synctest.Wait()
		check("map[0:1 2:11] 1")
	})
}

// answerWith has the model draw first, and answer the request with the drawing as that says.
func (w *world) answerWith(answer func(last haft.Message) (*model.Answer, error)) {
	w.answer = func(req model.Request) (*model.Answer, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role != haft.RoleTool {
			return call("a", `{}`), nil
		}
		return answer(last)
	}
}

// Organisations whose models hang cannot take all the memory: one that has no request under way gets some.
func TestImages_of_organisations_whose_models_hang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 7_000_000
		data := pngOf(t, each/2)
		w := drawing(t, artifact("1.png", "image/png", data), artifact("2.png", "image/png", data))
		hold := make(chan struct{})
		var shown atomic.Int64
		w.answerWith(func(last haft.Message) (*model.Answer, error) {
			shown.Add(int64(len(last.Images)))
			<-hold
			return say("done"), nil
		})
		p := w.begin(0, func(c *conversation.Config) { c.Agents = twoOrgs{c.Agents} })
		send := func(org string, i int) {
			who, name := haft.Principal{Org: org, User: org}, fmt.Sprint("helper", i)
			go listen(w, p.Send(t.Context(), as(who, name), name, haft.NewMessage{Text: "draw"}))
		}
		for i := range 40 {
			send(fmt.Sprint("org", i%4), i)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		before := shown.Load()
		send("another", 40)
		synctest.Wait()
		if n := shown.Load() - before; n != 2 {
			t.Errorf("another organisation sends %d images beside %d of those that hang, want 2", n, before)
		}
		close(hold)
	})
}

// While a turn waits to ask its model again, others use the memory of its images, and it sends them again.
func TestImages_between_tries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turns, each = 9, 7_000_000 // what an organisation may send at the same time
		data := pngOf(t, each/2)
		w := drawing(t, artifact("1.png", "image/png", data), artifact("2.png", "image/png", data))
		var tries, shown atomic.Int64
		w.answerWith(func(last haft.Message) (*model.Answer, error) {
			for _, f := range last.Images {
				if int64(len(f.Data)) == f.Size {
					shown.Add(1)
				}
			}
			if tries.Add(1) <= turns {
				return nil, &model.Fault{Kind: model.Unavailable, RetryAfter: time.Minute}
			}
			return say("done"), nil
		})
		p := w.begin(0)
		send := func(i int) {
			name := fmt.Sprint("helper", i)
			go listen(w, p.Send(t.Context(), as(ann, name), name, haft.NewMessage{Text: "draw"}))
		}
		for i := range turns {
			send(i)
		}
		synctest.Wait()
		send(turns)
		synctest.Wait()
		if got := fmt.Sprint(tries.Load(), shown.Load()); got != "10 20" {
			t.Errorf("requests and images: %s, want 10 20", got)
		}
		time.Sleep(2 * time.Minute)
		if got := fmt.Sprint(tries.Load(), shown.Load()); got != "19 38" {
			t.Errorf("requests and images after the second tries: %s, want 19 38", got)
		}
	})
}

// twoOrgs has the agents of one organisation in every other too.
type twoOrgs struct{ conversation.Agents }

// Agent implements [conversation.Agents].
func (a twoOrgs) Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	org := p.Org
	p.Org = ann.Org
	agent, err := a.Agents.Agent(ctx, p, ref)
	if err == nil {
		agent.Org = org
	}
	return agent, err
}

// Profile implements [conversation.Agents].
func (a twoOrgs) Profile(ctx context.Context, p haft.Principal, id haft.AgentID) (*conversation.Profile, error) {
	p.Org = ann.Org
	return a.Agents.Profile(ctx, p, id)
}

// counting counts what is read of artifacts.
type counting struct {
	conversation.Artifacts
	n *atomic.Int64
}

// ArtifactOf implements [conversation.Artifacts].
func (c counting) ArtifactOf(ctx context.Context, rec *haft.Record, name string) (*haft.Artifact, io.ReadSeeker,
	error) {
	a, in, err := c.Artifacts.ArtifactOf(ctx, rec, name)
	return a, countingReader{in, c.n}, err
}

type countingReader struct {
	io.ReadSeeker
	n *atomic.Int64
}

// Read implements io.Reader.
func (r countingReader) Read(b []byte) (int, error) {
	n, err := r.ReadSeeker.Read(b)
	r.n.Add(int64(n))
	return n, err
}

// The header of a PNG image can stand behind a chunk of 2 GB. Of a file as much is read as an image may have.
func TestImages_of_a_large_file(t *testing.T) {
	data := append([]byte("\x89PNG\r\n\x1a\n\x7f\xff\xff\xfftEXt"), make([]byte, 30_000_000)...)
	w := drawing(t, haft.Artifact{Name: "a.png", ContentType: "image/png", File: "f1", Size: int64(len(data))})
	w.files = map[haft.FileID][]byte{"f1": data}
	var n atomic.Int64
	w.begin(0, func(c *conversation.Config) { c.Artifacts = counting{c.Artifacts, &n} }).send("draw")
	if n.Load() == 0 || n.Load() > 4_000_000 {
		t.Errorf("%d bytes of %d were read", n.Load(), len(data))
	}
	if text := w.lastAnswer(); !strings.Contains(text, "not shown, its header cannot be read") {
		t.Errorf("the model is told %q", text)
	}
}

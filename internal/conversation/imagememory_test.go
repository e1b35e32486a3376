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

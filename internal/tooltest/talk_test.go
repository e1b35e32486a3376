package tooltest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"haft"
	"haft/internal/apimock"
	"haft/internal/modeltest"
)

// A request that reaches the model when the message has ended reads nothing that the next step writes.
func TestDialogue_answers_nothing_after_its_message(t *testing.T) {
	mock, err := apimock.New(nil, apimock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{place: &place{world: &world{cfg: &Config{}}, file: &File{}}, c: &Case{}, mock: mock}
	late := modeltest.Request{Messages: []haft.Message{{Text: "hi"}}}
	d := &dialogue{r: r, answers: []Answer{{Step: modeltest.Step{Text: "one"}}, {Step: modeltest.Step{Text: "two"}}},
		watched: map[haft.CallID]watchedTool{}, turn: haft.Turn{Status: haft.TurnCompleted}}
	if step := d.answer(late); step.Text != "one" {
		t.Errorf("the first answer is %+v", step)
	}
	d.judge(t.Context(), "", Call{}, 0, nil)
	if step := d.answer(late); step.Status != 404 || d.next != 1 {
		t.Errorf("the answer is %+v", step)
	}
	d.watch(haft.Call{ID: "c_1"})
	if len(d.watched)+len(r.calls) > 0 {
		t.Error("a call is watched after the message, and nobody will look")
	}
}

// Who only knows the port of the models reaches none.
func TestWorld_models_are_hidden(t *testing.T) {
	w := &world{}
	if _, err := w.openModels(); err != nil {
		t.Fatal(err)
	}
	defer w.models.close()
	at, err := url.Parse(w.models.server.URL)
	if err != nil || len(at.Path) < 20 {
		t.Fatalf("the URL is %s, %v", at, err)
	}
	const body = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	for _, u := range []string{"http://" + at.Host, w.models.server.URL} {
		resp, err := w.models.server.Client.Post(u+"/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		vendor := resp.Header.Get("Content-Type") == "application/json" // the 404 of a model that no case has
		if resp.StatusCode != http.StatusNotFound || vendor != (u == w.models.server.URL) {
			t.Errorf("%s answers %d, %s", u, resp.StatusCode, resp.Header)
		}
	}
}

package conversation_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

// pngOf returns a PNG image with n bytes behind it that nobody reads.
func pngOf(t testing.TB, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 4, 3))); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), make([]byte, n)...)
}

// artifact is a file of a call.
func artifact(name, declared string, data []byte) haft.Artifact {
	return haft.Artifact{Name: name, ContentType: declared, Size: int64(len(data)), Data: data}
}

// drawing is a world whose tool a leaves artifacts, and whose model takes images.
func drawing(t *testing.T, list ...haft.Artifact) *world {
	w := newWorld(t)
	w.model.Images = model.ImageTypes("anthropic")
	w.addTool("a", tool{run: echo, result: func(r *haft.Result) { r.Artifacts = append(r.Artifacts, list...) }})
	w.script(call("a", `{}`), say("done"))
	return w
}

// shown are the names of the images that the model got with its last request, whose content is there.
func (w *world) shown() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.asked[len(w.asked)-1].Messages {
		for _, f := range m.Images {
			if int64(len(f.Data)) == f.Size && f.Size > 0 {
				list = append(list, f.Name)
			}
		}
	}
	return list
}

// lastAnswer is the text of the last answer of a tool that the model got.
func (w *world) lastAnswer() (text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.asked[len(w.asked)-1].Messages {
		if m.Role == haft.RoleTool {
			text = m.Text
		}
	}
	return text
}

func TestImages(t *testing.T) {
	small := pngOf(t, 0)
	huge := artifact("huge.png", "image/png", append(pngOf(t, 0), make([]byte, 100<<20)...))
	var many []haft.Artifact
	for i := range 50 {
		many = append(many, artifact(fmt.Sprintf("%02d.png", i), "image/png", small))
	}
	svg := []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`)
	for _, test := range []struct {
		name   string
		files  []haft.Artifact
		change func(w *world)
		shown  []string
		answer string // what its text has
		not    string
	}{
		{name: "an image", files: []haft.Artifact{artifact("plot.png", "image/png", small)},
			shown:  []string{"plot.png"},
			answer: "[image plot.png, image/png, " + fmt.Sprint(len(small)) + " bytes]", not: "not shown"},
		{name: "a wrong type", files: []haft.Artifact{artifact("plot.gif", "image/gif", small)},
			shown: []string{"plot.gif"}, answer: "[image plot.gif, image/png,", not: "not shown"},
		{name: "a type that is no image",
			files: []haft.Artifact{artifact("data.bin", "application/octet-stream", small)},
			shown: []string{"data.bin"}},
		{name: "another file", files: []haft.Artifact{artifact("a.txt", "text/plain", []byte("text"))}, not: "a.txt"},
		{name: "no image", files: []haft.Artifact{artifact("a.png", "image/png", []byte("<html>"))},
			answer: "[image a.png, image/png, 6 bytes: not shown, it is no PNG, JPEG, GIF or WebP image]"},
		{name: "SVG", files: []haft.Artifact{artifact("a.svg", "image/svg+xml", svg)}, answer: "not shown",
			not: "alert"},
		{name: "a cut image", files: []haft.Artifact{artifact("a.png", "image/png", small[:20])},
			answer: "not shown, its header cannot be read"},
		{name: "100 MB", files: []haft.Artifact{huge, artifact("b.png", "image/png", small)}, shown: []string{"b.png"},
			answer: "not shown, it is too large"},
		{name: "50 images", files: many, shown: []string{"00.png", "01.png", "02.png", "03.png", "04.png", "05.png",
			"06.png", "07.png"}, answer: "[more images are not shown]", not: "20.png"},
		{name: "for the user only", files: []haft.Artifact{artifact("plot.png", "image/png", small)}, not: "plot.png",
			change: func(w *world) {
				a := w.tools["a"]
				inner := a.result
				a.result = func(r *haft.Result) {
					inner(r)
					r.Content = []haft.Content{{Type: haft.ContentImage, Artifact: "plot.png",
						Audience: []string{"user"}}}
				}
				w.addTool("a", a)
			}},
		{name: "a model that sees none", files: []haft.Artifact{artifact("plot.png", "image/png", small)},
			change: func(w *world) { w.model.Images = nil }, answer: "not shown, this model is not sent images"},
		{name: "a type that the vendor does not take", files: []haft.Artifact{artifact("plot.png", "image/png", small)},
			change: func(w *world) { w.model.Images = []string{"image/jpeg"} },
			answer: "this model takes no image/png"},
		{name: "in a file", files: []haft.Artifact{{Name: "plot.png", ContentType: "image/png", File: "f1",
			Size: int64(len(small))}}, change: func(w *world) { w.files = map[haft.FileID][]byte{"f1": small} },
			shown: []string{"plot.png"}},
		{name: "in a file that is gone", files: []haft.Artifact{{Name: "plot.png", ContentType: "image/png", File: "f1",
			Size: int64(len(small))}}, answer: "not shown, it is not kept any more"},
		{name: "a hostile name", files: []haft.Artifact{artifact("a\n[image b.png]\u2028.png", "image/png", small)},
			shown: []string{"a\n[image b.png]\u2028.png"}, answer: "[image a [image b.png] .png,"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := drawing(t, test.files...)
			if test.change != nil {
				test.change(w)
			}
			o := w.begin(0).send("draw")
			o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:success, assistant")
			if got := w.shown(); fmt.Sprint(got) != fmt.Sprint(test.shown) {
				t.Errorf("the model is shown %q", got)
			}
			text := w.lastAnswer()
			if !strings.Contains(text, test.answer) || test.not != "" && strings.Contains(text, test.not) {
				t.Errorf("the model is told %q", text)
			}
			for _, m := range o.kept {
				for _, f := range m.Images {
					if f.Data != nil {
						t.Error("the content of an image is kept with a message")
					}
				}
			}
		})
	}
}

// The images of a step are bounded over all its calls, also if another process makes the rest of them.
func TestImages_of_a_step(t *testing.T) {
	w := drawing(t, artifact("1.png", "image/png", pngOf(t, 3_000_000)), artifact("2.png", "image/png", pngOf(t, 0)))
	w.script(call("a", `{"n":1}`, "a", `{"n":2}`, "a", `{"n":3}`, "a", `{"n":4}`, "a", `{"n":5}`), say("done"))
	w.begin(0).send("draw")
	if got := fmt.Sprint(w.shown()); got != "[1.png 2.png 1.png 2.png 2.png 2.png 2.png]" {
		t.Errorf("the model is shown %s", got)
	}
}

// The newest images are shown, those of earlier turns too, and never more than vendors take.
func TestImages_of_a_conversation(t *testing.T) {
	var list []haft.Artifact
	for i := range 8 {
		list = append(list, artifact(fmt.Sprintf("%d.png", i), "image/png", pngOf(t, 0)))
	}
	w := drawing(t, list...)
	p := w.begin(0)
	for range 3 {
		p.send("draw")
	}
	p.send("draw none") // which draws
	got := w.shown()
	if len(got) != 20 || got[0] != "0.png" || got[19] != "7.png" {
		t.Errorf("the model is shown %q", got)
	}
	w.mu.Lock()
	first := w.asked[len(w.asked)-1].Messages[2]
	w.mu.Unlock()
	if !strings.Contains(first.Text, "newer images are shown instead") || len(first.Images) != 0 {
		t.Errorf("the first answer is %q with %d images", first.Text, len(first.Images))
	}
}

// A turn that another process goes on with shows the same images, and says of one that was removed meanwhile that it
// is gone.
func TestImages_after_a_crash(t *testing.T) {
	for at := 1; at < 25; at++ {
		size := int64(len(pngOf(t, 0)))
		w := drawing(t, haft.Artifact{Name: "kept.png", ContentType: "image/png", File: "f1", Size: size},
			haft.Artifact{Name: "gone.png", ContentType: "image/png", File: "f2", Size: size})
		w.files = map[haft.FileID][]byte{"f1": pngOf(t, 0), "f2": pngOf(t, 0)}
		p := w.begin(at)
		key := haft.NewMessage{Text: "draw", Key: "k"}
		listen(w, p.Send(t.Context(), as(ann, "helper"), "helper", key))
		if <-p.over(t, at); p.ops < at {
			break
		}
		w.mu.Lock()
		delete(w.files, "f2")
		w.mu.Unlock()
		o := listen(w, w.begin(0).Send(t.Context(), as(ann, "helper"), "helper", key))
		if o.turn.Status != haft.TurnCompleted {
			t.Fatalf("dead at %d: the turn is %+v, %v", at, o.turn, o.err)
		}
		got, text := fmt.Sprint(w.shown()), w.lastAnswer()
		switch {
		case got == "[kept.png]" && strings.Contains(text, " bytes: not shown, it is not kept any more]"):
		case got == "[kept.png gone.png]": // the first process died after the last request
		case got == "[]" && strings.HasPrefix(text, "Error (unknown)"): // nobody knows whether the call ran
		default:
			t.Errorf("dead at %d: the model is shown %s and told %q", at, got, text)
		}
	}
}

// Nobody is shown the images of others: a message can name a call of another organisation only if the store was
// tampered with, and is refused then too.
func TestImages_of_others(t *testing.T) {
	w := drawing(t, artifact("plot.png", "image/png", pngOf(t, 0)))
	p := w.begin(0)
	p.send("draw")
	w.mu.Lock()
	for _, r := range w.calls {
		r.call.Principal.Org = "other"
	}
	w.mu.Unlock()
	p.send("again")
	if got := fmt.Sprint(w.shown()); got != "[plot.png]" { // of the call of the second turn
		t.Errorf("the model is shown %s", got)
	}
}

// A vendor that refuses images is asked again without them, once for all of the turn.
func TestImages_that_the_vendor_refuses(t *testing.T) {
	w := drawing(t, artifact("plot.png", "image/png", pngOf(t, 0)))
	w.script(call("a", `{"n":1}`), call("a", `{"n":2}`), say("done"))
	answer, refusals := w.answer, 0
	w.answer = func(req model.Request) (*model.Answer, error) {
		for _, m := range req.Messages {
			if len(m.Images) > 0 {
				refusals++
				return nil, &model.Fault{Kind: model.RefusedRequest, Status: 400, Message: "could not process image",
					Err: errors.New("400")}
			}
		}
		return answer(req)
	}
	o := w.begin(0).send("draw")
	o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:success, assistant a, a:success, assistant")
	if refusals != 1 || !strings.Contains(w.lastAnswer(), "the model refused the images") || len(o.notes) != 1 {
		t.Errorf("%d refusals, told %q, notices %q", refusals, w.lastAnswer(), o.notes)
	}
}

// Images count for the context, so that a conversation with many of them is summarised in time.
func TestImages_count(t *testing.T) {
	var list []haft.Artifact
	for i := range 8 {
		list = append(list, artifact(fmt.Sprintf("%d.png", i), "image/png", pngOf(t, 0)))
	}
	w := drawing(t, list...)
	w.model.Context = 20_000 // of which 8 images take 12,800
	p := w.begin(0)
	p.send("draw")
	o := p.send("draw")
	summaries := 0
	for _, m := range o.kept {
		if m.Role == haft.RoleSummary {
			summaries++
		}
	}
	if summaries == 0 {
		t.Errorf("nothing was summarised: %s", shape(o.kept))
	}
}

// Without a place for artifacts, turns go on as before.
func TestImages_without_artifacts(t *testing.T) {
	w := drawing(t, artifact("plot.png", "image/png", pngOf(t, 0)))
	o := w.begin(0, func(c *conversation.Config) { c.Artifacts = nil }).send("draw")
	o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:success, assistant")
	if got := w.shown(); len(got) != 0 {
		t.Errorf("the model is shown %q", got)
	}
}

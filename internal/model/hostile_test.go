package model

import (
	"errors"
	"testing"

	"haft/internal/skiptest"
	"haft/schema"
)

// An endless reader repeats a text, and counts what was read of it.
type endless struct {
	text string
	read int
}

// Read implements [io.Reader].
func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], e.text[(e.read+n)%len(e.text):])
	}
	e.read += n
	return n, nil
}

// A stream that is refused is refused early, not after its last byte.
func TestReadEvents_hostile(t *testing.T) {
	t.Parallel()
	if skiptest.Race {
		return
	}
	for _, test := range []struct {
		name  string
		form  schema.Form
		event string
	}{
		{"empty events", schema.FormOpenAI, `{}`},
		{"redacted thinking", schema.FormAnthropic,
			`{"type":"content_block_start","content_block":{"type":"redacted_thinking","data":""}}`},
		{"signatures of one call", schema.FormOpenAI,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","extra_content":{"google":"0123456789"}}]}}]}`},
		{"signatures of a text", schema.FormGemini,
			`{"candidates":[{"content":{"parts":[{"thoughtSignature":"01234567890123456789"}]}}]}`},
		{"phases", schema.FormOpenAIResponses,
			`{"type":"response.output_item.done","item":{"type":"message","phase":"01234567890123456789"}}`},
	} {
		in := &endless{text: "data: " + test.event + "\n\n"}
		b := &builder{}
		err := readEvents(in, b.handle(formats()[test.form].reader(b)))
		if f, ok := errors.AsType[*Fault](err); !ok || f.Kind != InvalidAnswer || in.read > 10<<20 {
			t.Errorf("%s: after %d bytes the error is %v", test.name, in.read, err)
		}
	}
}

// An event is decoded once, however many of its fields are read.
func TestValue(t *testing.T) {
	v := &value{raw: []byte(`{"a":{"b":[1,null,"x"]},"n":null,"t":"x","i":-2.5}`)}
	if v.at("a") != v.at("a") || v.at("a", "b") != v.at("a").at("b") {
		t.Error("an object is decoded again")
	}
	list := v.list("a", "b")
	if len(list) != 3 || list[0].count() != 1 || list[1].present() || list[2].text() != "x" {
		t.Errorf("the list is %v", list)
	}
	for _, path := range [][]string{{"n"}, {"n", "x"}, {"t", "x"}, {"a", "b", "c"}, {"z", "z"}} {
		if got := v.at(path...); got.present() || got.text() != "" || got.list() != nil || got.textOrJSON() != "" {
			t.Errorf("at %v is %s", path, got.raw)
		}
	}
	if v.count("i") != 0 || v.text("i") != "" || v.at("a", "b").textOrJSON() != `[1,null,"x"]` {
		t.Error("a value of another type is not empty")
	}
}

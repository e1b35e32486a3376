package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"haft/internal/model"
	"haft/schema"
)

// embedding returns a client of a server of embeddings.
func embedding(t *testing.T, idle time.Duration, serve http.HandlerFunc) *model.Client {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	c, err := model.New(model.Config{Format: schema.FormOpenAI, BaseURL: s.URL, HTTP: s.Client(), Idle: idle,
		Key: func(context.Context) (string, error) { return "sk-hunter2", nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The request is OpenAI's, and vectors have length 1, in the order of the texts.
func TestEmbed(t *testing.T) {
	c := embedding(t, 0, func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Model      string   `json:"model"`
			Input      []string `json:"input"`
			Dimensions int      `json:"dimensions"`
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &in) != nil {
			t.Errorf("the request is %s, %v", body, err)
		}
		if got := fmt.Sprint(r.Method, r.URL, r.Header.Get("Authorization"), in); got != "POST/v1/embeddingsBearer "+
			"sk-hunter2{m [one two] 2}" {
			t.Errorf("the request is %s", got)
		}
		_, _ = io.WriteString(w, `{"object":"list","data":[{"index":1,"embedding":[0,-2]},{"object":"embedding",`+
			`"index":0,"embedding":[3e0,4]}],"model":"m","usage":{"prompt_tokens":2}}`)
	})
	got, err := c.Embed(t.Context(), "m", 2, []string{"one", "two"})
	if err != nil || fmt.Sprint(got) != "[[0.6 0.8] [0 -1]]" {
		t.Errorf("the vectors are %v, %v", got, err)
	}
	for _, texts := range [][]string{nil, make([]string, model.MaxEmbedded+1)} {
		if _, err := c.Embed(t.Context(), "m", 0, texts); err == nil {
			t.Errorf("%d texts are embedded", len(texts))
		}
	}
}

// An answer that is not what was asked for is a fault that says so, and shows neither the key nor what was answered.
func TestEmbed_refuses(t *testing.T) {
	data := func(vectors ...string) string { // with the indices 0, 1, …
		for i, v := range vectors {
			vectors[i] = fmt.Sprintf(`{"index":%d,"embedding":%s}`, i, v)
		}
		return `{"data":[` + strings.Join(vectors, ",") + `]}`
	}
	for name, tt := range map[string]struct {
		dims   int
		status int
		answer string
		kind   model.Kind
		says   string
	}{
		"no JSON":           {0, 200, "hunter2", model.InvalidAnswer, "no list"},
		"NaN":               {0, 200, data("[1,NaN]", "[1,2]"), model.InvalidAnswer, "no list"},
		"infinite":          {0, 200, data("[1,1e39]", "[1,2]"), model.InvalidAnswer, "finite"},
		"null as a number":  {0, 200, data("[1,null]", "[1,2]"), model.InvalidAnswer, "finite"},
		"null":              {0, 200, data("null", "[1,2]"), model.InvalidAnswer, "finite"},
		"text":              {0, 200, data(`"hunter2"`, "[1,2]"), model.InvalidAnswer, "finite"},
		"too few":           {0, 200, data("[1,2]"), model.InvalidAnswer, "1 embeddings, expected 2"},
		"too many":          {0, 200, data("[1]", "[1]", "[1]"), model.InvalidAnswer, "3 embeddings"},
		"none":              {0, 200, "{}", model.InvalidAnswer, "0 embeddings"},
		"empty":             {0, 200, data("[]", "[]"), model.InvalidAnswer, "of 0 numbers"},
		"different":         {0, 200, data("[1,2]", "[1]"), model.InvalidAnswer, "of 1 numbers, expected 2"},
		"another dimension": {3, 200, data("[1,2]", "[1,2]"), model.InvalidAnswer, "of 2 numbers, expected 3"},
		"zeros":             {0, 200, data("[0,0]", "[1,2]"), model.InvalidAnswer, "zeros"},
		"an index twice":    {0, 200, `{"data":[{"embedding":[1]},{"embedding":[1]}]}`, model.InvalidAnswer, "twice"},
		"another index":     {0, 200, `{"data":[{"index":2,"embedding":[1]},{"embedding":[1]}]}`, model.InvalidAnswer, "wrong"},
		"a negative index":  {0, 200, `{"data":[{"index":-1,"embedding":[1]},{"embedding":[1]}]}`, model.InvalidAnswer, "wrong"},
		"too many dimensions": {0, 200, data("[1"+strings.Repeat(",1", 4096)+"]", "[1]"), model.InvalidAnswer,
			"of 4097"},
		"huge":        {0, 200, strings.Repeat(" ", 17<<20), model.InvalidAnswer, "bytes"},
		"many values": {0, 200, `{"data":[` + strings.Repeat("{},", 1<<20) + `{}]}`, model.InvalidAnswer, "no list"},
		"deep":        {0, 200, strings.Repeat("[", 1<<20), model.InvalidAnswer, "no list"},
		"a wrong key": {0, 401, `{"error":{"message":"wrong key sk-hunter2"}}`, model.Unauthorized, "401"},
		"too often":   {0, 429, `{"error":{"message":"sk-hunter2"}}`, model.RateLimited, "429"},
		"too long": {0, 400, `{"error":{"message":"maximum context length is 512 tokens"}}`, model.TooLong,
			"512"},
		"no such model": {0, 404, `{"error":"model not found"}`, model.RefusedRequest, "404"},
		"a redirect":    {0, 307, "", model.RefusedRequest, "307"},
		"broken":        {0, 500, "", model.Unavailable, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			c := embedding(t, 0, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/embeddings" {
					t.Errorf("the redirect is followed to %s", r.URL)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.answer)
			})
			got, err := c.Embed(t.Context(), "m", tt.dims, []string{"one", "two"})
			f, ok := errors.AsType[*model.Fault](err)
			if got != nil || !ok || f.Kind != tt.kind || !strings.Contains(err.Error(), tt.says) ||
				strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the vectors are %v, %v", got, err)
			}
		})
	}
}

// A server that is silent, or slow without end, is a fault after the time; a caller that gives up is none.
func TestEmbed_ends(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"data":[`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	_, err := embedding(t, 50*time.Millisecond, slow).Embed(t.Context(), "m", 0, []string{"one"})
	if f, ok := errors.AsType[*model.Fault](err); !ok || f.Kind != model.Cut || !f.Retryable() || f.Text() {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = embedding(t, time.Hour, slow).Embed(ctx, "m", 0, []string{"one"})
	if _, ok := errors.AsType[*model.Fault](err); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}

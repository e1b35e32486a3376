package model_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"haft"
	"haft/internal/goldentest"
	"haft/internal/model"
	"haft/internal/modeltest"
)

// A goldenRequest is what a golden file asks.
type goldenRequest struct {
	System    string `json:"system"`
	Choice    string `json:"choice"`
	Parallel  bool   `json:"parallel"`
	MaxOutput int    `json:"max_output"`
	Tools     []haft.Tool
	Messages  []haft.Message
	// Opaque is that of messages, by their places, and OpaqueFormat whose it is.
	Opaque       map[int]json.RawMessage
	OpaqueFormat string
	Model        string
}

// Every format sends what its golden file says, and a server that is as strict as the vendor takes it.
func TestRequests(t *testing.T) {
	goldentest.Run(t, "testdata/request", 5, func(t *testing.T, g *goldentest.File) {
		var in goldenRequest
		dec := json.NewDecoder(bytes.NewReader([]byte(g.Text("request.json"))))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil {
			t.Fatal(err)
		}
		for _, form := range forms {
			s := modeltest.Start(t, modeltest.Step{Text: "ok"})
			messages := append([]haft.Message(nil), in.Messages...)
			for i, pieces := range in.Opaque {
				server := in.OpaqueFormat + " " + s.URL[len("http://"):]
				raw, err := json.Marshal(map[string]any{"server": server, "pieces": pieces})
				if err != nil {
					t.Fatal(err)
				}
				messages[i].Opaque = raw
			}
			_, err := client(t, form, s).Generate(t.Context(), model.Request{Model: in.Model, System: in.System,
				Choice: in.Choice, Parallel: in.Parallel, MaxOutput: in.MaxOutput, Tools: in.Tools,
				Messages: messages}, nil)
			if err != nil {
				t.Errorf("%s: %v", form, err)
				continue
			}
			var b bytes.Buffer
			if err := json.Indent(&b, s.Requests()[0].Body, "", "  "); err != nil {
				t.Fatal(err)
			}
			g.Expect(t, string(form)+".json", b.String()+"\n")
		}
	})
}

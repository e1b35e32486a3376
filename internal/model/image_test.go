package model_test

import (
	"bytes"
	"strings"
	"testing"

	"haft"
	"haft/internal/modeltest"
	"haft/schema"
)

// The beginnings of images, by which servers know their types.
var images = map[string]string{"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff",
	"image/webp": "RIFF\x00\x00\x00\x00WEBPVP8 ", "image/gif": "GIF89a"}

// picture is an image of an answer.
func picture(mime string) haft.MessageImage {
	return haft.MessageImage{Name: "plot", ContentType: mime, Data: []byte(images[mime] + "content of " + mime)}
}

// Every vendor gets images where it documents them, next to the answers of all calls, and a strict server takes it.
func TestGenerate_images(t *testing.T) {
	for _, form := range append(forms, "gemini-2.5-flash", "openai then user") {
		t.Run(string(form), func(t *testing.T) {
			req := hello()
			if form == "gemini-2.5-flash" {
				req.Model, form = string(form), schema.FormGemini
			}
			then := form == "openai then user"
			if then {
				form = schema.FormOpenAI
			}
			req.Messages = append(req.Messages,
				haft.Message{Role: haft.RoleAssistant, Calls: []haft.ToolCall{call("c1", "a", `{}`), call("c2", "b", `{}`)}},
				haft.Message{Role: haft.RoleTool, Answers: "c1", Name: "a", Text: "two plots",
					Images: []haft.MessageImage{picture("image/png"), picture("image/webp"), {Name: "gone"}}},
				haft.Message{Role: haft.RoleTool, Answers: "c2", Name: "b", Text: "one",
					Images: []haft.MessageImage{picture("image/jpeg")}})
			if then {
				req.Messages = append(req.Messages, haft.Message{Role: haft.RoleUser, Text: "which is best?"})
			} else {
				req.Messages = append(req.Messages, haft.Message{Role: haft.RoleAssistant,
					Calls: []haft.ToolCall{call("c3", "a", `{}`)}},
					haft.Message{Role: haft.RoleTool, Answers: "c3", Name: "a", Text: "no plot"})
			}
			s := modeltest.Start(t, modeltest.Step{Text: "nice"})
			if _, err := client(t, form, s).Generate(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
			got := s.Requests()[0].Images
			if len(got) != 3 {
				t.Fatalf("the server got %d images: %s", len(got), s.Requests()[0].Body)
			}
			for i, mime := range []string{"image/png", "image/webp", "image/jpeg"} {
				if got[i].MIME != mime || !bytes.Equal(got[i].Data, picture(mime).Data) {
					t.Errorf("image %d is %s, %q", i, got[i].MIME, got[i].Data)
				}
			}
			list := s.Requests()[0].Messages
			if then && (len(list) != 5 || !strings.HasSuffix(list[4].Text, "which is best?") || got[0].Message != 4) {
				t.Errorf("the images are not in the message of the user: %+v", list)
			}
			if strings.Contains(string(s.Requests()[0].Body), `"gone"`) {
				t.Error("an image without content is sent")
			}
		})
	}
}

// Where images stand is what the vendors document.
func TestGenerate_images_by_format(t *testing.T) {
	for form, want := range map[schema.Form]string{
		schema.FormAnthropic: `"content":[{"text":"done","type":"text"},{"source":{"data":"iVBORw0KGgpjb250ZW50IG9mIGl` +
			`tYWdlL3BuZw==","media_type":"image/png","type":"base64"},"type":"image"}]`,
		schema.FormOpenAIResponses: `"output":[{"text":"done","type":"input_text"},{"image_url":"data:image/png;base64,` +
			`iVBORw0KGgpjb250ZW50IG9mIGltYWdlL3BuZw==","type":"input_image"}]`,
		schema.FormGemini: `"parts":[{"inlineData":{"data":"iVBORw0KGgpjb250ZW50IG9mIGltYWdlL3BuZw==",` +
			`"mimeType":"image/png"}}],"response":{"result":"done"}`,
		schema.FormOpenAI: `{"content":[{"text":"[images that the tool a returned]","type":"text"},{"image_url":{"url":` +
			`"data:image/png;base64,iVBORw0KGgpjb250ZW50IG9mIGltYWdlL3BuZw=="},"type":"image_url"}],"role":"user"}`,
	} {
		req := hello()
		req.Messages = append(req.Messages,
			haft.Message{Role: haft.RoleAssistant, Calls: []haft.ToolCall{call("c1", "a", `{}`)}},
			haft.Message{Role: haft.RoleTool, Answers: "c1", Name: "a", Text: "done",
				Images: []haft.MessageImage{picture("image/png")}})
		s := modeltest.Start(t, modeltest.Step{Text: "nice"})
		if _, err := client(t, form, s).Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		if body := string(s.Requests()[0].Body); !strings.Contains(body, want) {
			t.Errorf("%s: the request has not %s: %s", form, want, body)
		}
	}
}

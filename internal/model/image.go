package model

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
	"haft/schema"
)

// ImageTypes returns the types of the images that the models of a format take, as far as their vendor documents it.
func ImageTypes(f schema.Form) []string {
	types := []string{"image/png", "image/jpeg", "image/webp", "image/gif"}
	if f == schema.FormGemini {
		types = types[:3]
	}
	return types
}

// withData returns the images whose content is there.
func withData(images []haft.MessageImage) (list []haft.MessageImage) {
	for _, m := range images {
		if len(m.Data) > 0 {
			list = append(list, m)
		}
	}
	return list
}

// dataURL is an image as a data URL.
func dataURL(m haft.MessageImage) string {
	return "data:" + m.ContentType + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
}

// chatContent is a message of a user, behind the images of the answers before it.
func chatContent(images []any, texts []string) any {
	text := strings.Join(texts, "\n\n")
	if images == nil {
		return text
	}
	return append(slices.Clone(images), object{"type": "text", "text": text})
}

// chatImages are the images of an answer as parts of a message of a user: the messages of tools take text only.
func chatImages(c call) (parts []any) {
	if len(c.images) > 0 {
		parts = append(parts, object{"type": "text", "text": imagesOf(c)})
	}
	for _, m := range c.images {
		parts = append(parts, object{"type": "image_url", "image_url": object{"url": dataURL(m)}})
	}
	return parts
}

// imagesOf says whose the images behind it are, so that the model does not take them for those of the user.
func imagesOf(c call) string { return "[images that the tool " + c.name + " returned]" }

// nestsImages reports whether a model of Gemini takes images within the answer to a call. Those before Gemini 3 take
// them beside it only, and those from Gemini 3 on within it only.
func nestsImages(model string) bool { return !gemini2().MatchString(model) }

var gemini2 = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(models/)?gemini-[12]([.-]|$)`) })

// geminiImages are the images of an answer.
func geminiImages(c call) (parts []any) {
	for _, m := range c.images {
		parts = append(parts, object{"inlineData": object{"mimeType": m.ContentType, "data": m.Data}})
	}
	return parts
}

// imagesBeside are the images of the answers of a turn for a model that does not take them within the answers.
func imagesBeside(t turn, model string) (parts []any) {
	for _, c := range t.calls {
		if len(c.images) > 0 && !nestsImages(model) {
			parts = append(append(parts, object{"text": imagesOf(c)}), geminiImages(c)...)
		}
	}
	return parts
}

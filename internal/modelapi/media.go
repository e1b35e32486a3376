package modelapi

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"haft"
)

// The bounds of the files that are shown to a model in the answers to one request.
const (
	// MaxMedia is how many. Anthropic takes larger images up to 20.
	MaxMedia = 20
	// MaxMediaFile is the size of one, in bytes. As base64 it has 5 MB, which is
	// the most that Anthropic takes.
	MaxMediaFile = 3_750_000
	// MaxMediaBytes is the size of all. As base64 they have 16 MB; Gemini takes 20
	// in a request, with everything else.
	MaxMediaBytes = 12_000_000
	// MaxTextFile is the size of a text that is put into the text of an answer.
	MaxTextFile = 20_000
)

// media is a file that is shown as a part of its own.
type media struct {
	name, mime string
	data       []byte
}

// image reports whether it is an image. Otherwise it is a PDF document.
func (m media) image() bool { return strings.HasPrefix(m.mime, "image/") }

func (m media) base64() string { return base64.StdEncoding.EncodeToString(m.data) }

// url is the file as a data URL.
func (m media) url() string { return "data:" + m.mime + ";base64," + m.base64() }

// A budget is how much may still be shown.
type budget struct {
	parts, bytes int
	textOnly     bool // the format has no parts for files, or the model sees none
}

// files shows the files of a result, or names them.
func (a *answer) files(r *haft.Result, b *budget) {
	texts := haft.DefaultMaxChars
	for _, f := range r.Artifacts {
		name, mime := cmp.Or(oneLine(f.Name, 200), "file"), sniff(f.Data) // OpenAI takes no file without a name
		kind := mime
		if kind == "" {
			kind = oneLine(f.ContentType, 100)
		}
		what := func(more string) { a.note("file %s, %s, %d bytes%s", name, kind, f.Size, more) }
		switch {
		case f.Size > int64(len(f.Data)):
			what(": its content is not here")
		case mime == "" && isText(f) && len(f.Data) <= min(MaxTextFile, texts):
			texts -= len(f.Data)
			what(":")
			a.notes = append(a.notes, strings.TrimSuffix(string(f.Data), "\n"))
			a.note("end of file %s", name)
		case mime == "" || b.textOnly:
			what(": it cannot be shown here")
		case len(f.Data) > MaxMediaFile:
			what(": it is too large to be shown")
		case b.parts == 0 || len(f.Data) > b.bytes:
			what(": there are too many files to show this one")
		default:
			b.parts--
			b.bytes -= len(f.Data)
			a.media = append(a.media, media{name, mime, f.Data})
			what(": shown")
		}
	}
}

// sniff returns the type of a file that models can be shown, by its first bytes.
func sniff(data []byte) string {
	for _, t := range []struct{ mime, magic string }{
		{"image/png", "\x89PNG\r\n\x1a\n"},
		{"image/jpeg", "\xff\xd8\xff"},
		{"image/gif", "GIF87a"},
		{"image/gif", "GIF89a"},
		{"application/pdf", "%PDF-"},
	} {
		if bytes.HasPrefix(data, []byte(t.magic)) {
			return t.mime
		}
	}
	if len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP" {
		return "image/webp"
	}
	return ""
}

// isText reports whether a file is a text that can stand among others.
func isText(f haft.Artifact) bool {
	mime, _, _ := strings.Cut(strings.ToLower(f.ContentType), ";")
	mime = strings.TrimSpace(mime)
	named := strings.HasPrefix(mime, "text/") || mime == "application/json" || mime == "application/xml" ||
		strings.HasSuffix(mime, "+json") || strings.HasSuffix(mime, "+xml")
	return named && utf8.Valid(f.Data) && bytes.IndexByte(f.Data, 0) < 0
}

package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"haft"
	"haft/internal/bounds"
	"haft/internal/fileparam"
	"haft/internal/jsontree"
)

// The bounds of arguments that are read to find files in them. Larger ones are passed on as they are, and so are
// those with more files.
const (
	maxArgs     = 24 << 20 // maxGiven as base64, and more
	maxArgDepth = 64
	maxFiles    = 16 // that one call is given, and calls that artifacts are looked for in
	maxGiven    = 16 << 20
)

// giveFiles gives a call the files that its arguments have or name, where the tool takes files: artifacts of
// earlier calls by their addresses, data URIs, and content blocks. An artifact that the caller may not read stays an
// address, which is no file. The complaint is for the client.
func (v *view) giveFiles(ctx context.Context, t haft.Tool, c *haft.Call) (complaint string, err error) {
	params := fileparam.Compile(t.Version.Kind, t.Version.Parameters)
	if params == nil {
		return "", nil
	}
	args, err := jsontree.Decode(c.Args, jsontree.Limits{Bytes: maxArgs, Depth: maxArgDepth, Values: bounds.MaxValues})
	if err != nil {
		return "", nil // the call says what is wrong with them
	}
	refs, _ := params.Given(args)
	g := given{view: v, seen: map[haft.CallID][]haft.Artifact{}}
	size := 0
	for _, r := range refs {
		f, err := g.file(ctx, r)
		switch code := haft.CodeOf(err); {
		case code == haft.CodeInvalid:
			return r.Pointer() + ": " + haft.MessageOf(err), nil
		case err != nil:
			return "", err
		case f == nil:
			continue
		}
		if size += len(f.data); size > maxGiven || len(c.Files) == maxFiles {
			return fmt.Sprintf("%s: expected at most %d files of %d bytes together", r.Pointer(), maxFiles, maxGiven),
				nil
		}
		at := path.Join(f.dir, strconv.Itoa(len(c.Files)+1), f.name)
		c.Files = append(c.Files, haft.CallFile{Path: at, Data: f.data})
		jsontree.Set(args, r.At, at)
	}
	if len(c.Files) > 0 {
		c.Args, err = json.Marshal(args)
	}
	return "", err
}

// A given file is one that the arguments of a call have or name.
type givenFile struct {
	dir, name string
	data      []byte
}

// given finds the files that the arguments of one call have or name.
type given struct {
	view *view
	seen map[haft.CallID][]haft.Artifact
}

// file returns the file that an argument is, or nil if it is another text.
func (g *given) file(ctx context.Context, r fileparam.Ref) (*givenFile, error) {
	if r.Object != nil {
		return fileOfBlock(r.Object)
	}
	if rest, ok := cutScheme(r.Text, "data:"); ok {
		return fileOfData(rest)
	}
	id, name, ok := parseURI(r.Text)
	if !ok || !g.view.who.Artifacts {
		return nil, nil
	}
	if _, ok := g.seen[id]; !ok {
		if len(g.seen) == maxFiles {
			return nil, nil
		}
		list, err := g.view.artifacts(ctx, id)
		if err != nil {
			return nil, err
		}
		g.seen[id] = list
	}
	a := artifactOf(g.seen[id], name)
	if a == nil {
		return nil, nil
	}
	return &givenFile{"artifacts", path.Base(name), a.Data}, nil
}

// cutScheme cuts the scheme of an address, whose case does not matter.
func cutScheme(text, scheme string) (string, bool) {
	if len(text) < len(scheme) || !strings.EqualFold(text[:len(scheme)], scheme) {
		return "", false
	}
	return text[len(scheme):], true
}

// refused says what was expected of a file.
func refused(expected string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: "expected " + expected}
}

// fileOfData reads what is behind the scheme of a data URI: RFC 2397, with or without base64. A parameter name,
// which some clients send, is the name of the file.
func fileOfData(rest string) (*givenFile, error) {
	head, body, ok := strings.Cut(rest, ",")
	if !ok || len(head) > 1024 {
		return nil, refused("a data URI: data:TYPE;base64,CONTENT")
	}
	head, is64 := strings.CutSuffix(head, ";base64")
	kind, params, err := mime.ParseMediaType(head)
	if err != nil {
		kind, params = "", nil
	}
	name, err := url.PathUnescape(params["name"])
	if err != nil {
		name = ""
	}
	f := &givenFile{"given", fileName(name, kind), nil}
	if body, err = url.PathUnescape(body); err != nil {
		return nil, refused("content of the data URI in percent-encoding")
	}
	if f.data = []byte(body); is64 {
		f.data, err = decode64(body)
	}
	return f, err
}

// decode64 reads base64, with or without the padding.
func decode64(text string) ([]byte, error) {
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, refused("content in base64")
	}
	return data, nil
}

// fileOfBlock reads a content block of MCP that has a file: an embedded resource, an image or audio. Other objects may
// be what the tool expects. What a link leads to is not fetched.
func fileOfBlock(block *jsontree.Object) (*givenFile, error) {
	content, of := "data", block
	switch block.String("type") {
	case "resource":
		if content, of = "blob", block.Object("resource"); of == nil {
			return nil, nil
		}
		if text, ok := of.Value("text").(string); ok {
			return &givenFile{"given", fileName(of.String("uri"), "text/plain"), []byte(text)}, nil
		}
	case "image", "audio":
	default:
		return nil, nil
	}
	text, ok := of.Value(content).(string)
	if !ok {
		return nil, nil
	}
	data, err := decode64(text)
	return &givenFile{"given", fileName(of.String("uri"), of.String("mimeType")), data}, err
}

// fileName is the last part of a name or address that a client gave, if it can be one of data, or one that says
// the type of the file.
func fileName(given, kind string) string {
	if u, err := url.Parse(given); err == nil && u.Scheme != "" {
		given = u.Path
	}
	name := path.Base(given)
	plain := !strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == '\\' || c == 0x7f })
	if given != "" && plain && len(name) <= 100 && !strings.HasPrefix(name, ".") && name != "/" &&
		name != "package.json" && name != "node_modules" {
		return name
	}
	for _, known := range [][2]string{{"image/png", ".png"}, {"image/jpeg", ".jpg"}, {"image/gif", ".gif"},
		{"image/webp", ".webp"}, {"audio/wav", ".wav"}, {"audio/mpeg", ".mp3"}, {"application/pdf", ".pdf"},
		{"application/json", ".json"}, {"text/csv", ".csv"}, {"text/html", ".html"}, {"text/plain", ".txt"}} {
		if kind == known[0] {
			return "file" + known[1]
		}
	}
	return "file"
}

// artifacts returns the artifacts of a call, or none if the caller may not see it.
func (v *view) artifacts(ctx context.Context, id haft.CallID) ([]haft.Artifact, error) {
	rec, err := v.s.service.Record(ctx, v.who.Principal, id)
	switch code := haft.CodeOf(err); {
	case code == haft.CodeNotFound || code == haft.CodeDenied || err == nil && rec.Result == nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return rec.Result.Artifacts, nil
}

// artifactOf returns the artifact of this name whose content is there, or nil.
func artifactOf(list []haft.Artifact, name string) *haft.Artifact {
	i := slices.IndexFunc(list, func(a haft.Artifact) bool { return a.Name == name && a.Size <= int64(len(a.Data)) })
	if i < 0 {
		return nil
	}
	return &list[i]
}

package upstream

import (
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/executor"
)

// A part is a piece of content as a value shows it. Binary content becomes an artifact,
// which the part names.
type part struct {
	Type        string `json:"type"`
	Text        string `json:"text,omitempty"`
	MIME        string `json:"mimeType,omitempty"`
	URI         string `json:"uri,omitempty"`
	Name        string `json:"name,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Size        *int64 `json:"size,omitempty"`
	Artifact    string `json:"artifact,omitempty"`
}

// contents are the parts and artifacts of a result.
type contents struct {
	parts     []part
	artifacts []haft.Artifact
	limits    haft.Limits
	bytes     int64
	leftOut   int64 // artifacts beyond the limits
}

// add adds one piece of content.
func (c *contents) add(content mcp.Content) {
	switch v := content.(type) {
	case *mcp.TextContent:
		c.parts = append(c.parts, part{Type: "text", Text: v.Text})
	case *mcp.ImageContent:
		c.addArtifact(part{Type: "image", MIME: v.MIMEType}, "image", v.Data)
	case *mcp.AudioContent:
		c.addArtifact(part{Type: "audio", MIME: v.MIMEType}, "audio", v.Data)
	case *mcp.ResourceLink:
		c.parts = append(c.parts, part{Type: "resource_link", MIME: v.MIMEType, URI: v.URI, Name: v.Name,
			Title: v.Title, Description: v.Description, Size: v.Size})
	case *mcp.EmbeddedResource:
		if v.Resource == nil {
			return
		}
		p := part{Type: "resource", MIME: v.Resource.MIMEType, URI: v.Resource.URI, Text: v.Resource.Text}
		if len(v.Resource.Blob) == 0 {
			c.parts = append(c.parts, p)
			return
		}
		name := path.Base(v.Resource.URI)
		if name == "." || name == "/" || len(name) > 100 {
			name = "resource"
		}
		c.addArtifact(p, name, v.Resource.Blob)
	default:
		c.parts = append(c.parts, part{Type: "unknown"})
	}
}

// addArtifact adds data as an artifact, within the limits.
func (c *contents) addArtifact(p part, name string, data []byte) {
	if len(c.artifacts) >= c.limits.Artifacts || c.bytes+int64(len(data)) > c.limits.ArtBytes {
		c.leftOut++
		c.parts = append(c.parts, p)
		return
	}
	if path.Ext(name) == "" {
		name += extension(p.MIME)
	}
	name = fmt.Sprintf("%d-%s", len(c.artifacts)+1, name)
	p.Artifact = name
	c.bytes += int64(len(data))
	c.artifacts = append(c.artifacts, haft.Artifact{Name: name, ContentType: p.MIME, Size: int64(len(data)),
		Data: data})
	c.parts = append(c.parts, p)
}

// extension returns the file extension for a media type, or "".
func extension(typ string) string {
	kind, _, err := mime.ParseMediaType(typ)
	if err != nil {
		return ""
	}
	_, sub, _ := strings.Cut(kind, "/")
	switch sub {
	case "png", "gif", "webp", "wav", "ogg", "pdf", "json", "csv", "html":
		return "." + sub
	case "jpeg":
		return ".jpg"
	case "mpeg":
		return ".mp3"
	case "svg+xml":
		return ".svg"
	case "plain":
		return ".txt"
	}
	return ""
}

// redact removes secrets from all texts and artifacts.
func (c *contents) redact(clean func(string) string) {
	for i := range c.parts {
		p := &c.parts[i]
		for _, text := range []*string{&p.Text, &p.URI, &p.Name, &p.Title, &p.Description} {
			if *text != "" {
				*text = clean(*text)
			}
		}
	}
	for i := range c.artifacts {
		a := &c.artifacts[i]
		a.Data = []byte(clean(string(a.Data)))
		a.Size = int64(len(a.Data))
	}
}

// text returns all text, with line breaks between the pieces.
func (c *contents) text() string {
	var texts []string
	for _, p := range c.parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// onlyText reports whether there is nothing but text.
func (c *contents) onlyText() bool {
	return !slices.ContainsFunc(c.parts, func(p part) bool { return p.Type != "text" })
}

// value returns the value of the tool: its structured content, else its text, else the
// list of parts. Text that differs from the structured content is returned as beside.
func (c *contents) value(structured any, want json.RawMessage) (value json.RawMessage, beside string, err error) {
	if structured != nil {
		raw, err := json.Marshal(structured)
		if err != nil {
			return nil, "", fmt.Errorf("encode structured content: %w", err)
		}
		if text := c.text(); !sameJSON(raw, text) {
			beside = text
		}
		return raw, beside, nil
	}
	if c.onlyText() {
		text := c.text()
		if len(want) > 0 && json.Valid([]byte(text)) {
			return json.RawMessage(text), "", nil // the tool has a schema, and wrote JSON
		}
		raw, err := executor.EncodeJSON(text)
		return raw, "", err
	}
	raw, err := executor.EncodeJSON(c.parts)
	return raw, "", err
}

// sameJSON reports whether text is empty, or the same JSON as raw.
func sameJSON(raw []byte, text string) bool {
	if strings.TrimSpace(text) == "" {
		return true
	}
	var a, b any
	return json.Unmarshal([]byte(text), &a) == nil && json.Unmarshal(raw, &b) == nil && reflect.DeepEqual(a, b)
}

package modelapi

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	_ "image/gif"  // decoders of headers
	_ "image/jpeg" // of which
	_ "image/png"  // CheckImage uses those
	"io"

	"haft"
)

// maxSide is how many pixels a side of an image has at most: Anthropic refuses a request with a larger one.
const maxSide = 8000

// The reasons why an image is not sent, in words for the model.
var (
	errNoImage = errors.New("it is no PNG, JPEG, GIF or WebP image")
	errBroken  = errors.New("its header cannot be read")
	errSide    = errors.New("a side of it has more than 8000 pixels")
)

// CheckImage reads the beginning of a file and returns its type if models can be sent it: a PNG, JPEG, GIF or WebP
// image with a header that can be read. What a tool says of the type does not count. Vendors refuse the whole request
// for one image that they cannot read.
func CheckImage(r io.Reader) (mime string, err error) {
	in := bufio.NewReader(r)
	head, err := in.Peek(30)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", errBroken
	}
	var c image.Config
	switch mime = sniff(head); mime {
	case "image/png", "image/jpeg", "image/gif":
		c, _, err = image.DecodeConfig(in)
	case "image/webp":
		c, err = webpConfig(head)
	default:
		return "", errNoImage
	}
	switch {
	case err != nil || c.Width <= 0 || c.Height <= 0:
		return "", errBroken
	case max(c.Width, c.Height) > maxSide:
		return "", errSide
	}
	return mime, nil
}

// webpConfig reads the size of a WebP image from its first 30 bytes (RFC 9649).
func webpConfig(head []byte) (c image.Config, err error) {
	if len(head) < 30 {
		return c, errBroken
	}
	number := func(at int) int { return int(binary.LittleEndian.Uint32(head[at:])) }
	switch {
	case bytes.HasPrefix(head[12:], []byte("VP8X")):
		c.Width, c.Height = number(24)&0xffffff+1, number(26)>>8+1
	case bytes.HasPrefix(head[12:], []byte("VP8L")) && head[20] == 0x2f:
		c.Width, c.Height = number(21)&0x3fff+1, number(21)>>14&0x3fff+1
	case bytes.HasPrefix(head[12:], []byte("VP8 ")) && bytes.HasPrefix(head[23:], []byte("\x9d\x01\x2a")):
		c.Width, c.Height = number(26)&0x3fff, number(26)>>16&0x3fff
	default:
		return c, errBroken
	}
	return c, nil
}

// ImageNote is what a model is told of an image, or of a file that its tool declares as one. It needs no escape: the
// name has no line breaks.
func ImageNote(a haft.Artifact, kind, why string) string {
	var note answer
	if why != "" {
		why = ": not shown, " + why
	}
	note.note("image %s, %s, %d bytes%s", oneLine(a.Name, 200), oneLine(kind, 100), a.Size, why)
	return note.notes[0]
}

package modeltest

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
)

// An Image is one of a request.
type Image struct {
	// Message is the place of its message among those of the request. Images that are sent beside the answers to calls
	// have that of a message of the user behind them.
	Message int
	MIME    string
	Data    []byte
}

// The bounds of vendors.
const (
	maxImages     = 100
	maxImageBytes = 5 << 20 // as base64
)

// addImage adds an image of the message that is read next, or of the answer that is read. Vendors refuse what is not of
// the type that the request says.
func (r *Request) addImage(mime, encoded string) error {
	data, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case err != nil:
		return errors.New("an image is not base64")
	case len(encoded) > maxImageBytes || len(r.Images) == maxImages:
		return errors.New("an image is too large, or there are too many")
	case mime != "image/png" && mime != "image/jpeg" && mime != "image/gif" && mime != "image/webp":
		return errors.New("the type of an image is not supported")
	case http.DetectContentType(data) != mime:
		return errors.New("the image does not have the type that is said")
	}
	r.Images = append(r.Images, Image{len(r.Messages), mime, data})
	return nil
}

// addDataURL adds an image that stands in a data URL.
func (r *Request) addDataURL(url string) error {
	mime, encoded, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(url, "data:") {
		return errors.New("an image is no data URL with base64")
	}
	return r.addImage(mime, encoded)
}

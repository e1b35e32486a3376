package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"

	"haft/internal/bounds"
	"haft/schema"
)

// The bounds of embeddings.
const (
	MaxEmbedded   = 32       // texts of one request
	MaxDimensions = 4096     // numbers of a vector
	maxVectors    = 16 << 20 // bytes of an answer: numbers of 25 characters, each on a line of its own
)

// Embed returns the vectors of texts, each of length 1, by OpenAI's format of POST /embeddings, which other servers
// speak too. Vectors have the dimensions that are given; 0 leaves them to the server.
func (c *Client) Embed(ctx context.Context, model string, dimensions int, texts []string) ([][]float32, error) {
	if len(texts) == 0 || len(texts) > MaxEmbedded || c.cfg.Format != schema.FormOpenAI {
		return nil, fmt.Errorf("embeddings are of 1 to %d texts, in the format openai", MaxEmbedded)
	}
	fields := object{"model": model, "input": texts}
	if dimensions > 0 {
		fields["dimensions"] = dimensions
	}
	body, err := schema.Encode(fields)
	if err != nil {
		return nil, fmt.Errorf("write the request for embeddings: %w", err)
	}
	key, err := c.key(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeoutCause(ctx, c.cfg.Idle, errIdle)
	defer cancel()
	answer, err := c.askVectors(within, key, body)
	switch {
	case err == nil:
		return readVectors(answer, dimensions, len(texts))
	case ctx.Err() != nil:
		return nil, fmt.Errorf("ask for embeddings: %w", context.Cause(ctx))
	case errors.Is(context.Cause(within), errIdle):
		return nil, &Fault{Kind: Cut, Message: errIdle.Error(), Err: errIdle}
	}
	return nil, err
}

// askVectors sends a request for embeddings and returns the answer.
func (c *Client) askVectors(ctx context.Context, key string, body []byte) ([]byte, error) {
	resp, err := c.send(ctx, "/embeddings", "application/json", key, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, refused(resp, resp.Body, c.secrets(key))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxVectors+1))
	if err != nil {
		return nil, &Fault{Kind: Cut, Err: err, Message: "the connection to the server of the model broke"}
	}
	if len(text) > maxVectors {
		return nil, invalidAnswer("has more than %d bytes", maxVectors)
	}
	return text, nil
}

// readVectors reads an answer with n vectors, and makes each of length 1.
func readVectors(text []byte, dimensions, n int) ([][]float32, error) {
	var in struct {
		Data []struct {
			Index     int             `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
	}
	most := bounds.Limits{Values: n*(MaxDimensions+16) + 100, Depth: 8, Members: 100, Name: 100, Number: 64}
	if bounds.Check(text, most, nil) != nil || json.Unmarshal(text, &in) != nil {
		return nil, invalidAnswer("is no list of embeddings")
	}
	if len(in.Data) != n {
		return nil, invalidAnswer("has %d embeddings, expected %d", len(in.Data), n)
	}
	vectors := make([][]float32, n)
	for _, d := range in.Data {
		if d.Index < 0 || d.Index >= n || vectors[d.Index] != nil {
			return nil, invalidAnswer("has an index that is wrong or comes twice")
		}
		var v []float32
		// A null would be read as 0: some servers write it for a number that is not finite.
		if bytes.IndexByte(d.Embedding, 'n') >= 0 || json.Unmarshal(d.Embedding, &v) != nil {
			return nil, invalidAnswer("has an embedding that is no list of finite numbers")
		}
		if dimensions == 0 {
			dimensions = len(v) // all have as many as the first one
		}
		if len(v) == 0 || len(v) > MaxDimensions || len(v) != dimensions {
			return nil, invalidAnswer("has an embedding of %d numbers, expected %d, and at most %d", len(v), dimensions,
				MaxDimensions)
		}
		if !normalize(v) {
			return nil, invalidAnswer("has an embedding of zeros")
		}
		vectors[d.Index] = v
	}
	return vectors, nil
}

// normalize makes a vector of length 1, or reports that it has no direction.
func normalize(v []float32) bool {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	length := math.Sqrt(sum)
	for i, x := range v {
		v[i] = float32(float64(x) / length)
	}
	return length > 0
}

// Text reports whether the texts that were embedded may be why there is no answer, and not the server.
func (f *Fault) Text() bool {
	return f.Kind == TooLong || f.Kind == RefusedRequest || f.Kind == InvalidAnswer || f.Status >= 500 &&
		f.Kind == Unavailable
}

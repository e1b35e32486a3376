package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// A sandboxE2B is a sandbox of E2B's API, and the right to work in it.
type sandboxE2B struct {
	ID    string `json:"sandboxID"`
	Token string `json:"envdAccessToken"`
}

// firstCommand is a message of the Connect protocol that starts a command.
func firstCommand() []byte {
	const text = `{"process":{"cmd":"/bin/true"},"stdin":false}`
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
}

// addE2B times making a sandbox over E2B's API and its first command, and ends it.
func (s *served) addE2B(ctx context.Context) (made, first time.Duration, err error) {
	start := time.Now()
	raw, err := s.send(ctx, "/e2b/v2/sandboxes", map[string]any{"templateID": "base"})
	made = time.Since(start)
	if err != nil {
		return 0, 0, fmt.Errorf("make a sandbox: %w", err)
	}
	var box sandboxE2B
	if err := json.Unmarshal(raw, &box); err != nil {
		return 0, 0, fmt.Errorf("read the answer: %w", err)
	}
	start = time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/e2b/sandbox/process.Process/Start",
		bytes.NewReader(firstCommand()))
	if err != nil {
		return 0, 0, fmt.Errorf("make a request: %w", err)
	}
	for k, v := range map[string]string{"E2b-Sandbox-Id": box.ID, "X-Access-Token": box.Token,
		"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"} {
		req.Header.Set(k, v)
	}
	raw, _, err = s.do(req)
	first = time.Since(start)
	if err == nil && !bytes.Contains(raw, []byte(`"end"`)) {
		err = fmt.Errorf("the first command of a sandbox did not end")
	}
	if err != nil {
		return 0, 0, err
	}
	return made, first, s.remove(ctx, "/e2b/sandboxes/"+box.ID)
}

package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"haft"
	"haft/internal/audit"
)

// A chain is written, exported with a signature, tampered with and read.
func Example() {
	key, err := audit.NewKey()
	if err != nil {
		log.Fatal(err)
	}
	ada := haft.Principal{Org: "acme", User: "ada"}
	head := audit.Genesis("acme")
	var chain []audit.Entry
	for _, tool := range []string{"add", "send_mail", "add"} {
		e := audit.Link(head, audit.Entry{
			Org: "acme", Time: time.Now(), Kind: "call.started", Actor: ada, Tool: tool,
			Body: json.RawMessage(`{"decision":"allow"}`),
		})
		chain, head = append(chain, e), e.Head()
	}
	entries := func(yield func(audit.Entry, error) bool) {
		for _, e := range chain {
			if !yield(e, nil) {
				return
			}
		}
	}

	var file bytes.Buffer
	from := audit.Head{Org: "acme"}
	if _, err := audit.Export(&file, entries, audit.Extract{From: from, Signer: key, Time: time.Now()}); err != nil {
		log.Fatal(err)
	}

	keys := audit.MakeKeys(key.Public())
	report, err := audit.Read(bytes.NewReader(file.Bytes()), "acme", keys, nil, nil)
	fmt.Println(report.Entries, "entries, signed up to", report.Signed, report.Err(), err)

	tampered := bytes.Replace(file.Bytes(), []byte("send_mail"), []byte("read_mail"), 1)
	report, err = audit.Read(bytes.NewReader(tampered), "acme", keys, nil, nil)
	fmt.Println(report.Problems, err)

	// Output:
	// 3 entries, signed up to 3 <nil> <nil>
	// [entry 2 was changed: its content does not fit its hash] <nil>
}

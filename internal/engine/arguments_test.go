package engine

import (
	"encoding/json"
	"testing"

	"haft/internal/jsontree"
)

// Arguments are read once, and again if somebody replaces them.
func TestReadArgs_once(t *testing.T) {
	ex := &execution{}
	ex.call.Args = json.RawMessage(`{"n": 12345678901234567890.10}`)
	first, err := ex.readArgs()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := ex.readArgs(); again != first {
		t.Error("the arguments were read twice")
	}
	if got := jsontree.OrEmpty(ex.readArgs()); got.Tree != first || string(got.Text) != `{"n":12345678901234567890.10}` {
		t.Errorf("rules see %s", got.Text)
	}
	ex.call.Args = json.RawMessage(`{"n": 2}`)
	if other, _ := ex.readArgs(); other == first {
		t.Error("arguments that were replaced are not read")
	}
	ex.call.Args = json.RawMessage(`{"n": `)
	if _, err := ex.readArgs(); err == nil {
		t.Error("arguments that cannot be read are taken for those of before")
	}
	if got := jsontree.OrEmpty(ex.readArgs()); string(got.Text) != "{}" {
		t.Errorf("rules see %s of arguments that cannot be read", got.Text)
	}
}

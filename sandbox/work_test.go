package sandbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft/sandbox"
)

func TestSpec_WorkAt(t *testing.T) {
	argv, env := sandbox.Spec{
		Argv: []string{"/bin/sh", "/work/tool.sh", "/work", "/workshop", "a/work/b"},
		Env:  []string{"A=/work/x", "B=/work", "C=/workshop", "D=", "E=/bin:/work", "F=/work=/work"},
	}.WorkAt("/tmp/7")
	if diff := cmp.Diff([]string{"/bin/sh", "/tmp/7/tool.sh", "/tmp/7", "/workshop", "a/work/b"}, argv); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"A=/tmp/7/x", "B=/tmp/7", "C=/workshop", "D=", "E=/bin:/work", "F=/work=/work"},
		env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if argv, env := (sandbox.Spec{}).WorkAt("/tmp/7"); argv == nil || env == nil {
		t.Error("nothing to translate gives nil, which exec takes for the environment of the host")
	}
}

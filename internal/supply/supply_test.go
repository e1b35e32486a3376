package supply_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft/internal/supply"
)

func TestFromEnv(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{
		"HAFT_PIP_INDEX_URL": "https://ann:pw@pip.example.com/simple", "PIP_INDEX_URL": "https://other.example.com",
		"PIP_EXTRA_INDEX_URL": "https://a.example.com https://b.example.com:8443/x",
		"npm_config_registry": "https://npm.example.com", "HAFT_WHEELS": dir + ":relative:/nowhere/at/all",
		"HAFT_OFFLINE": "1", "HAFT_INDEX_HOSTS": "files.example.com,cdn.example.com",
		"HTTPS_PROXY": "http://proxy.example.com:3128",
	}
	c := supply.FromEnv(func(n string) string { return env[n] })
	if c.Index.URL != env["HAFT_PIP_INDEX_URL"] || c.Index.Registry != "https://npm.example.com" || !c.Index.Offline ||
		c.Index.Proxy != env["HTTPS_PROXY"] {
		t.Errorf("FromEnv = %+v", c)
	}
	if diff := cmp.Diff([]string{dir}, c.Index.Wheels); diff != "" {
		t.Errorf("wheels (-want +got):\n%s", diff)
	}
	places, err := c.IndexHosts("pip")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.example.com", "b.example.com:8443", "cdn.example.com", "files.example.com", "pip.example.com"}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	public, err := supply.Config{}.IndexHosts("npm")
	if err != nil || fmt.Sprint(public) != "[registry.npmjs.org]" {
		t.Errorf("public npm: %v, %v", public, err)
	}
	for _, bad := range []string{"file:///etc/passwd", "ftp://x.example.com", "https://", "%zz"} {
		c.Index.URL = bad
		if _, err := c.IndexHosts("pip"); err == nil {
			t.Errorf("an index %q is accepted", bad)
		}
	}
}

func TestImports(t *testing.T) {
	got := supply.Imports(`import os, numpy as np, yaml
from pandas.io import json as j
from . import x
import numpy.linalg  # and so on
    import indented
import evil; import numpy
from numpy import *
import `+"numpy\x00"+`
`, []string{"numpy", "pandas", "yaml", "indented", "evil"})
	if diff := cmp.Diff([]string{"numpy", "yaml", "pandas.io", "numpy.linalg"}, got); diff != "" {
		t.Errorf("imports (-want +got):\n%s", diff)
	}
}

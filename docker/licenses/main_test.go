package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const affero = `Some words. SPDX-License-Identifier: AGPL-3.0

This program is free software: you can redistribute it and/or modify it under the terms of
the GNU Affero General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.`

func TestModulesNeedAnAllowedLicense(t *testing.T) {
	dir := func(files ...string) string {
		path := t.TempDir()
		for i := 0; i < len(files); i += 2 {
			require.NoError(t, os.WriteFile(filepath.Join(path, files[i]), []byte(files[i+1]), 0o600))
		}
		return path
	}
	text, err := os.ReadFile("../../LICENSE")
	require.NoError(t, err)
	m, err := classify(module{Path: "example.com/a", Version: "v1.2.3"},
		dir("LICENSE.txt", string(text), "NOTICE", "Made by someone", "main.go", "package main"))
	require.NoError(t, err)
	require.Equal(t, []string{"Apache-2.0"}, m.licenses)
	require.Equal(t, []string{strings.TrimSpace(string(text)), "Made by someone"}, m.texts)

	_, err = classify(module{Path: "example.com/b", Version: "v1"}, dir("README.md", "hello"))
	require.ErrorContains(t, err, "example.com/b v1: no file of")
	_, err = classify(module{Path: "example.com/c", Version: "v1"}, dir("LICENSE", string(text), "COPYING", affero))
	require.ErrorContains(t, err, "example.com/c v1: COPYING contains license AGPL")
}

func TestEachTextIsPrintedOnceWithItsModules(t *testing.T) {
	var out strings.Builder
	write(&out, []module{
		{"a", "v1", []string{"MIT"}, []string{"text"}},
		{"b", "v2", []string{"ISC", "MIT"}, []string{"other", "text"}},
	})
	_, got, _ := strings.Cut(out.String(), "\n\n")
	line := strings.Repeat("=", 80)
	require.Equal(t, "a v1: MIT\nb v2: ISC, MIT\n\n"+line+"\na v1\nb v2\n\ntext\n\n"+line+"\nb v2\n\nother\n", got)
}

func TestModulesOfEveryPlatformAreListed(t *testing.T) {
	modules, err := list(t.Context(), []string{"../../sdk/command"})
	require.NoError(t, err)
	paths := []string{}
	for _, m := range modules {
		paths = append(paths, m.Path)
	}
	require.Contains(t, paths, "modernc.org/sqlite")
	require.Contains(t, paths, "github.com/ncruces/go-strftime", "compiled for darwin only")
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mit = `MIT License

Copyright (c) 2020 Someone

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.`

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
	m, err := classify(module{Path: "example.com/a", Version: "v1.2.3"},
		dir("LICENSE.txt", mit, "NOTICE", "Made by someone", "main.go", "package main"))
	require.NoError(t, err)
	require.Equal(t, []string{"MIT"}, m.licenses)
	require.Equal(t, []string{mit, "Made by someone"}, m.texts)

	_, err = classify(module{Path: "example.com/b", Version: "v1"}, dir("README.md", "hello"))
	require.ErrorContains(t, err, "example.com/b v1: no file of")
	_, err = classify(module{Path: "example.com/c", Version: "v1"}, dir("LICENSE", mit, "COPYING", affero))
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

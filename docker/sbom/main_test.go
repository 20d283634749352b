package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// save writes the archive of an image with the file as its entrypoint.
func save(t *testing.T, binary []byte) string {
	t.Helper()
	var files bytes.Buffer
	writer := tar.NewWriter(&files)
	require.NoError(t, writer.WriteHeader(&tar.Header{Name: "service", Mode: 0o755, Size: int64(len(binary))}))
	_, err := writer.Write(binary)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	image, err = mutate.Config(image, v1.Config{Entrypoint: []string{"/service"}})
	require.NoError(t, err)
	archive := filepath.Join(t.TempDir(), "service.tar")
	require.NoError(t, tarball.WriteToFile(archive, name.MustParseReference("service:1"), image))
	return archive
}

func TestEveryModuleOfTheBinaryIsListed(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, run([]string{self}, &out))
	var bom cyclonedx.BOM
	require.NoError(t, json.Unmarshal(out.Bytes(), &bom))
	listed := map[string]cyclonedx.Component{}
	for _, component := range *bom.Components {
		listed[component.Name] = component
	}
	info, err := buildinfo.ReadFile(self)
	require.NoError(t, err)
	require.NotEmpty(t, info.Deps)
	for _, module := range info.Deps {
		require.Equal(t, module.Version, listed[module.Path].Version, module.Path)
		require.Equal(t, "pkg:golang/"+module.Path+"@"+module.Version, listed[module.Path].PackageURL)
		require.Len(t, (*listed[module.Path].Hashes)[0].Value, 64, module.Path)
	}
	require.NotEmpty(t, listed["std"].Version)
	require.Equal(t, info.Main.Path, bom.Metadata.Component.Name)

	binary, err := os.ReadFile(self)
	require.NoError(t, err)
	var fromImage bytes.Buffer
	require.NoError(t, run([]string{save(t, binary)}, &fromImage))
	require.Equal(t, out.String(), fromImage.String(), "the image of the binary has the same document")
}

func TestErrorsNameTheFile(t *testing.T) {
	require.ErrorContains(t, run(nil, io.Discard), "expected one argument")
	require.ErrorContains(t, run([]string{"main.go"}, io.Discard), "main.go")
	require.ErrorContains(t, run([]string{"missing.tar"}, io.Discard), "reading missing.tar")
	require.Error(t, run([]string{save(t, []byte("#!/bin/sh"))}, io.Discard))
}

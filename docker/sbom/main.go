// Command sbom prints the software bill of materials of a Go program, in CycloneDX 1.6 JSON, from the build information that Go puts
// into each binary: every module with its version and, unless it is part of this repository, the hash of go.sum. Its argument is a
// binary, or the archive of an image that `docker save` wrote, of which it reads the entrypoint.
//
// The same binary gives the same document: it has no serial number and no time.
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("expected one argument: a Go binary or the archive of an image")
	}
	read := buildinfo.ReadFile
	if strings.HasSuffix(args[0], ".tar") {
		read = readImage
	}
	info, err := read(args[0])
	if err != nil {
		return err
	}
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(document(info))
}

// readImage returns the build information of the entrypoint of the image in the archive.
func readImage(archive string) (*debug.BuildInfo, error) {
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", archive, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", archive, err)
	}
	if len(config.Config.Entrypoint) == 0 {
		return nil, fmt.Errorf("reading %s: the image has no entrypoint", archive)
	}
	entrypoint := strings.TrimPrefix(config.Config.Entrypoint[0], "/")
	files := mutate.Extract(image)
	defer files.Close() //nolint:errcheck // a reader of memory
	for reader := tar.NewReader(files); ; {
		header, err := reader.Next()
		if err != nil {
			return nil, fmt.Errorf("reading /%s of %s: %w", entrypoint, archive, err)
		}
		if strings.TrimPrefix(header.Name, "/") != entrypoint {
			continue
		}
		binary, err := io.ReadAll(reader)
		if err != nil {
			return nil, fmt.Errorf("reading /%s of %s: %w", entrypoint, archive, err)
		}
		return buildinfo.Read(bytes.NewReader(binary))
	}
}

// document describes the binary with this build information.
func document(info *debug.BuildInfo) *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	bom.SpecVersion, bom.JSONSchema = cyclonedx.SpecVersion1_6, "http://cyclonedx.org/schema/bom-1.6.schema.json"
	main := component(cyclonedx.ComponentTypeApplication, info.Main)
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	components := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary,
		debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})}
	for _, dependency := range info.Deps {
		components = append(components, component(cyclonedx.ComponentTypeLibrary, *cmp.Or(dependency.Replace, dependency)))
	}
	bom.Components = &components
	return bom
}

// component describes a module. A module of this repository is replaced by its folder and has no version.
func component(kind cyclonedx.ComponentType, module debug.Module) cyclonedx.Component {
	described := cyclonedx.Component{Type: kind, Name: module.Path, Version: module.Version}
	if module.Version != "" && module.Version != "(devel)" {
		described.PackageURL = "pkg:golang/" + module.Path + "@" + module.Version
	}
	described.BOMRef = cmp.Or(described.PackageURL, module.Path)
	// A sum is "h1:" and the base64 form of a SHA-256, see https://go.dev/ref/mod#go-sum-files.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:")); err == nil && len(sum) > 0 {
		described.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return described
}

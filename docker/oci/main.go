// Command oci writes the release images of programs as OCI layouts, without a container builder:
//
//	oci PROGRAMS LICENSES IMAGES NAME...
//
// It reads each program from PROGRAMS/linux-ARCH/NAME and its licenses from LICENSES/NAME, writes
// the layout IMAGES/NAME, with an image for each architecture, and prints "NAME: DIGEST". The
// environment variables VERSION, REVISION and, if set, SOURCE become labels, and SOURCE_DATE_EPOCH
// dates the images. The contents are those of docker/Dockerfile, except that the public CA
// certificates come from a module, so that the same commit gives the same bytes on every machine.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "oci: expected PROGRAMS LICENSES IMAGES NAME...")
		os.Exit(2)
	}
	for _, name := range os.Args[4:] {
		digest, err := write(release{programs: os.Args[1], licenses: os.Args[2], images: os.Args[3]}, name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "oci: writing the image of %s: %v\n", name, err)
			os.Exit(1)
		}
		fmt.Printf("%s: %s\n", name, digest)
	}
}

// release names the folders of the programs, of their licenses and of the layouts.
type release struct{ programs, licenses, images string }

// write writes the layout of one program and returns the digest of its index.
func write(r release, name string) (v1.Hash, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("invalid SOURCE_DATE_EPOCH: %w", err)
	}
	created := time.Unix(seconds, 0).UTC()
	licenses, err := os.ReadFile(filepath.Join(r.licenses, name)) //nolint:gosec // the caller names the files
	if err != nil {
		return v1.Hash{}, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range []string{"amd64", "arm64"} {
		path := filepath.Join(r.programs, "linux-"+architecture, name)
		program, err := os.ReadFile(path) //nolint:gosec // the caller names the files
		if err != nil {
			return v1.Hash{}, err
		}
		layer, err := layerOf(name, map[string][]byte{
			"etc/ssl/certs/ca-certificates.crt": certificates(),
			"THIRD_PARTY_LICENSES":              licenses,
			name:                                program,
		}, created)
		if err != nil {
			return v1.Hash{}, err
		}
		platform := v1.Platform{OS: "linux", Architecture: architecture}
		img, err := image(name, platform, layer, created)
		if err != nil {
			return v1.Hash{}, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: untyped{img}, Descriptor: v1.Descriptor{Platform: &platform},
		})
	}
	path, err := layout.Write(filepath.Join(r.images, name), empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	reference := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": os.Getenv("VERSION")})
	if err := path.AppendIndex(index, reference); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// untyped is an image whose descriptor has no artifact type: skopeo of Debian 12 drops that field
// when it copies an index, and so cannot preserve the digest.
type untyped struct{ v1.Image }

func (untyped) ArtifactType() (string, error) { return "", nil }

// image returns the image of one platform, with the configuration that docker/Dockerfile gives it.
func image(name string, platform v1.Platform, layer v1.Layer, created time.Time) (v1.Image, error) {
	command := "serve"
	if name == "opportunity" {
		command = "--help"
	}
	labels := map[string]string{
		"org.opencontainers.image.title":    "opportunity/" + name,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version":  os.Getenv("VERSION"),
		"org.opencontainers.image.revision": os.Getenv("REVISION"),
	}
	if source := os.Getenv("SOURCE"); source != "" {
		labels["org.opencontainers.image.source"] = source
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS:           platform.OS,
		Architecture: platform.Architecture,
		Created:      v1.Time{Time: created},
		Config: v1.Config{
			User:         "65532:65532",
			Env:          []string{"GOTRACEBACK=single"},
			Entrypoint:   []string{"/" + name},
			Cmd:          []string{command},
			ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9090/tcp": {}},
			Labels:       labels,
		},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "opportunity release"},
	})
}

// layerOf returns a layer with the files and their folders. Only the program is executable.
func layerOf(program string, files map[string][]byte, modified time.Time) (v1.Layer, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, folder := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		header := &tar.Header{Name: folder, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: modified, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{
			Name: name, Size: int64(len(files[name])), Mode: 0o644, ModTime: modified, Format: tar.FormatUSTAR,
		}
		if name == program {
			header.Mode = 0o755
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(out.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// certificates returns the public CA certificates that Mozilla trusts, in PEM.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer accepts every write
	}
	return out.Bytes()
}

package main

import (
	"archive/tar"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

// folders returns a release with a program for each architecture.
func folders(t *testing.T) release {
	t.Helper()
	r := release{programs: t.TempDir(), licenses: t.TempDir(), images: t.TempDir()}
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(filepath.Join(r.programs, "linux-amd64", "gateway"), "program for amd64")
	write(filepath.Join(r.programs, "linux-arm64", "gateway"), "program for arm64")
	write(filepath.Join(r.licenses, "gateway"), "licenses of the gateway")
	return r
}

func TestImagesAreCompleteAndReproducible(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1764000000")
	t.Setenv("VERSION", "1.2.3")
	t.Setenv("REVISION", "abc")
	r := folders(t)
	digest, err := write(r, "gateway")
	require.NoError(t, err)
	again, err := write(folders(t), "gateway")
	require.NoError(t, err)
	require.Equal(t, digest, again)

	written, err := layout.ImageIndexFromPath(filepath.Join(r.images, "gateway"))
	require.NoError(t, err)
	named, err := written.IndexManifest()
	require.NoError(t, err)
	require.Len(t, named.Manifests, 1)
	require.Equal(t, digest, named.Manifests[0].Digest)
	require.Equal(t, "1.2.3", named.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	index, err := written.ImageIndex(digest)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 2)
	for _, m := range manifest.Manifests {
		require.Equal(t, "linux", m.Platform.OS)
		require.Empty(t, m.ArtifactType)
		image, err := index.Image(m.Digest)
		require.NoError(t, err)
		config, err := image.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, m.Platform.Architecture, config.Architecture)
		require.Equal(t, time.Unix(1764000000, 0).UTC(), config.Created.Time)
		require.Equal(t, "65532:65532", config.Config.User)
		require.Equal(t, []string{"/gateway"}, config.Config.Entrypoint)
		require.Equal(t, []string{"serve"}, config.Config.Cmd)
		require.Equal(t, "1.2.3", config.Config.Labels["org.opencontainers.image.version"])

		files := map[string]string{}
		for archive := tar.NewReader(mutate.Extract(image)); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			content, err := io.ReadAll(archive)
			require.NoError(t, err)
			files[header.Name] = string(content)
			executable := header.Typeflag == tar.TypeDir || header.Name == "gateway"
			require.Equal(t, executable, header.Mode&0o111 == 0o111, header.Name)
		}
		require.Equal(t, "program for "+m.Platform.Architecture, files["gateway"])
		require.Equal(t, "licenses of the gateway", files["THIRD_PARTY_LICENSES"])
		require.True(t, x509.NewCertPool().AppendCertsFromPEM([]byte(files["etc/ssl/certs/ca-certificates.crt"])))
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1764000000")
	r := folders(t)
	require.NoError(t, os.Remove(filepath.Join(r.programs, "linux-arm64", "gateway")))
	_, err := write(r, "gateway")
	require.ErrorContains(t, err, filepath.Join("linux-arm64", "gateway"))
}

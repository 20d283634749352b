package main

import (
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/stretchr/testify/require"
)

// push stores a new random image under the name and returns its digest.
func push(t *testing.T, name string) string {
	t.Helper()
	image, err := random.Image(16, 1)
	require.NoError(t, err)
	require.NoError(t, crane.Push(image, name))
	digest, err := image.Digest()
	require.NoError(t, err)
	return digest.String()
}

func TestImagesArePinnedToTheDigestOfTheirTag(t *testing.T) {
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	base, redis := host+"/library/golang:1.26", host+"/redis:7.4.10-alpine"
	baseDigest, redisDigest := push(t, base), push(t, redis)

	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	got := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	dockerfile := file("Dockerfile", "FROM "+base+" AS build\nFROM scratch AS image\nFROM $SERVICE\n")
	stores := file("stores.yaml",
		"services:\n  a:\n    image: "+redis+"\n  b:\n    image: opportunity/gateway:${VERSION:-dev}\n")
	require.NoError(t, pin([]string{dockerfile, filepath.Join(dir, "*.yaml")}))
	require.Equal(t, "FROM "+base+"@"+baseDigest+" AS build\nFROM scratch AS image\nFROM $SERVICE\n", got(dockerfile))
	require.Equal(t, "services:\n  a:\n    image: "+redis+"@"+redisDigest+"\n  b:\n    image: opportunity/gateway:${VERSION:-dev}\n", got(stores))

	newer := push(t, redis)
	require.NoError(t, pin([]string{stores}))
	require.Contains(t, got(stores), redis+"@"+newer+"\n", "a digest is updated")

	before := got(stores)
	unknown := file("unknown.yaml", "  - image: "+host+"/nothing:1\n")
	require.ErrorContains(t, pin([]string{stores, unknown}), "resolving "+host+"/nothing:1")
	require.Equal(t, before, got(stores), "nothing is written unless every image was found")
}

// TestImagesInTheRepositoryAreAtMostAYearOld also checks that every image of another project is
// recognized.
func TestImagesInTheRepositoryAreAtMostAYearOld(t *testing.T) {
	texts, err := read([]string{"../images.txt"})
	require.NoError(t, err)
	months := map[string]string{}
	released := regexp.MustCompile(`(?m)^([^#\s]+) +(\d{4}-\d\d)$`)
	for _, row := range released.FindAllStringSubmatch(string(texts["../images.txt"]), -1) {
		months[row[1]] = row[2]
	}
	texts, err = read([]string{"../Dockerfile", "../compose.yaml", "../../k8s/*/*.yaml"})
	require.NoError(t, err)
	used := map[string]bool{}
	for file, text := range texts {
		for line := range strings.Lines(string(text)) {
			match := named.FindStringSubmatch(line)
			if match == nil {
				name, isImage := strings.CutPrefix(strings.TrimSpace(line), "image: ")
				require.True(t, !isImage || strings.HasPrefix(name, "opportunity/"), "%s: not recognized: %s", file, line)
				continue
			}
			used[match[2]] = true
			month, err := time.Parse("2006-01", months[match[2]])
			require.NoError(t, err, "%s: %s: add it to docker/images.txt with the month of its release", file, match[2])
			require.True(t, time.Now().Before(month.AddDate(1, 1, 0)),
				"%s: %s is more than a year old: use the current patch release", file, match[2])
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(used)), slices.Collect(maps.Keys(months)),
		"docker/images.txt must have the images in use")
}

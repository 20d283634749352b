package docker_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// imageLine matches a line of a manifest, of compose.yaml or of a Dockerfile that names an image.
var imageLine = regexp.MustCompile(`(?m)^(?:[ -]*image:|FROM)[ \t]+["']?([^\s"'@]+)`)

// theirs returns the images of other projects in a file, without digests. Images with a variable
// and stages of a build are our own.
func theirs(text string) (images []string) {
	for _, m := range imageLine.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], ":") && !strings.Contains(m[1], "$") {
			images = append(images, m[1])
		}
	}
	return images
}

// releases returns the month of each line of images.txt.
func releases(t *testing.T, text string) map[string]time.Time {
	t.Helper()
	months := map[string]time.Time{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && !strings.HasPrefix(line, "#") {
			month, err := time.Parse("2006-01", fields[1])
			require.NoError(t, err, line)
			months[fields[0]] = month
		}
	}
	return months
}

// tooOld returns an error text for an image that is not listed, or that was released more than a
// year before now.
func tooOld(image string, months map[string]time.Time, now time.Time) string {
	switch month, listed := months[image]; {
	case !listed:
		return image + " is not in docker/images.txt: add it with the month of its release"
	case now.After(month.AddDate(1, 1, 0)):
		return image + " is more than a year old: use the current patch release"
	}
	return ""
}

func TestImagesOfOtherProjectsAreAtMostAYearOld(t *testing.T) {
	text, err := os.ReadFile("images.txt")
	require.NoError(t, err)
	months, used := releases(t, string(text)), map[string]bool{}
	files := []string{"Dockerfile", "compose.yaml"}
	for _, pattern := range []string{"../k8s/*/*.yaml", "../k8s/*/*/*.yaml", "../charts/opportunity/templates/*.yaml"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, image := range theirs(string(text)) {
			used[image] = true
			require.Empty(t, tooOld(image, months, time.Now()), file)
		}
	}
	for image := range months {
		require.True(t, used[image], "%s is no longer used: remove it from images.txt", image)
	}
}

func TestOldImagesAreFound(t *testing.T) {
	require.Equal(t, []string{"redis:7.4.1-alpine", "quay.io/a/b:v1", "golang:1.26"},
		theirs("  image: redis:7.4.1-alpine@sha256:00\n"+
			"    - image: \"quay.io/a/b:v1\"\n  image: opportunity/gateway:${VERSION:-dev}\nFROM golang:1.26 AS build\nFROM image AS x\n"))
	months := releases(t, "# comment\nredis:7.4.1-alpine 2024-10\n")
	october := time.Date(2025, 10, 31, 0, 0, 0, 0, time.UTC)
	require.Empty(t, tooOld("redis:7.4.1-alpine", months, october))
	require.Contains(t, tooOld("redis:7.4.1-alpine", months, october.AddDate(0, 0, 2)), "more than a year old")
	require.Contains(t, tooOld("redis:8", months, october), "not in docker/images.txt")
}

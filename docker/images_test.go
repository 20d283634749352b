package docker_test

import (
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

func TestImagesOfOtherProjectsAreAtMostAYearOld(t *testing.T) {
	months, used := map[string]time.Time{}, map[string]bool{}
	for line := range strings.Lines(read(t, "images.txt")) {
		if fields := strings.Fields(line); len(fields) == 2 && !strings.HasPrefix(line, "#") {
			month, err := time.Parse("2006-01", fields[1])
			require.NoError(t, err, line)
			months[fields[0]] = month
		}
	}
	files := []string{"Dockerfile", "compose.yaml"}
	for _, pattern := range []string{"../k8s/*/*.yaml", "../k8s/*/*/*.yaml", "../charts/opportunity/templates/*.yaml"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		for _, image := range theirs(read(t, file)) {
			used[image] = true
			require.Contains(t, months, image, "%s: add it to docker/images.txt with the month of its release", file)
			require.True(t, time.Now().Before(months[image].AddDate(1, 1, 0)),
				"%s: %s is more than a year old: use the current patch release", file, image)
		}
	}
	for image := range months {
		require.True(t, used[image], "%s is no longer used: remove it from images.txt", image)
	}
	require.Equal(t, []string{"redis:7.4.1-alpine", "quay.io/a/b:v1", "golang:1.26"},
		theirs("  image: redis:7.4.1-alpine@sha256:00\n    - image: \"quay.io/a/b:v1\"\n"+
			"  image: opportunity/gateway:${VERSION:-dev}\nFROM golang:1.26 AS build\nFROM image AS x\n"))
}

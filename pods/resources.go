package pods

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// capacity is what a container may use of the node when it sets no limit.
type capacity struct {
	cpus   int64
	memory int64 // bytes
}

// nodeCapacity asks the node.
func nodeCapacity() capacity {
	c := capacity{cpus: int64(runtime.NumCPU())}
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return c
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			c.memory = kib << 10
		}
	}
	return c
}

// resourceValue is a value of resourceFieldRef, such as limits.cpu: what the
// container's spec says, in units of the divisor, rounded up. Nothing is limited
// here; a program that asks learns what it was meant to use. Pure.
func resourceValue(p *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector, node capacity) (string, error) {
	if ref.ContainerName != "" {
		all := slices.Concat(p.Spec.Containers, p.Spec.InitContainers)
		i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == ref.ContainerName })
		if i < 0 {
			return "", &ConfigError{fmt.Sprintf("container %s not found in the Pod", ref.ContainerName)}
		}
		c = &all[i]
	}
	if c == nil {
		return "", &ConfigError{"resourceFieldRef: containerName is missing"}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	list := map[string]corev1.ResourceList{"limits": c.Resources.Limits, "requests": c.Resources.Requests}[kind]
	q, set := list[corev1.ResourceName(name)]
	if !set && kind == "limits" {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU:
			q = *resource.NewQuantity(node.cpus, resource.DecimalSI)
		case corev1.ResourceMemory:
			q = *resource.NewQuantity(node.memory, resource.BinarySI)
		}
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	value, unit := float64(q.Value()), float64(divisor.Value())
	if corev1.ResourceName(name) == corev1.ResourceCPU {
		value, unit = float64(q.MilliValue()), float64(divisor.MilliValue())
	}
	return strconv.FormatInt(int64(math.Ceil(value/unit)), 10), nil
}

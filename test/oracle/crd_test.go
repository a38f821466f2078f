package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// definition is one kind as its CRD has it.
type definition struct {
	namespaced bool
	schema     *structural.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// definitions are those of the Gateway API's standard channel, by kind, from the
// module whose types the product has.
var definitions = sync.OnceValues(func() (map[string]definition, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		return nil, fmt.Errorf("module of the Gateway API: %w", err)
	}
	out := map[string]definition{}
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes", "referencegrants"} {
		path := filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "standard", "gateway.networking.k8s.io_"+plural+".yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var crd apiextv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if out[crd.Spec.Names.Kind], err = define(&crd); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out, nil
})

func define(crd *apiextv1.CustomResourceDefinition) (definition, error) {
	d := definition{namespaced: crd.Spec.Scope == apiextv1.NamespaceScoped}
	for _, v := range crd.Spec.Versions {
		if v.Name != "v1" {
			continue
		}
		var props apiext.JSONSchemaProps
		err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil)
		if err != nil {
			return d, err
		}
		if d.schema, err = structural.NewStructural(&props); err != nil {
			return d, err
		}
		if d.validator, _, err = validation.NewSchemaValidator(&props); err != nil {
			return d, err
		}
		d.rules = cel.NewValidator(d.schema, true, celconfig.PerCallLimit)
		return d, nil
	}
	return d, fmt.Errorf("no version v1")
}

// customKind is the kind of an object of the Gateway API.
func customKind(data []byte) (string, bool) {
	var meta metav1.TypeMeta
	err := json.Unmarshal(data, &meta)
	return meta.Kind, err == nil && meta.GroupVersionKind().Group == gatewayv1.GroupName
}

// custom does what the API server does with a custom resource at creation: unknown
// fields, defaults, schema, lists, and the rules in CEL.
func custom(data []byte, kind string) (runtime.Object, error) {
	all, err := definitions()
	if err != nil {
		return nil, err
	}
	d, ok := all[kind]
	if !ok {
		return nil, fmt.Errorf("no definition of %s", kind)
	}
	var obj map[string]any
	if err := utiljson.Unmarshal(data, &obj); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	delete(obj, "status")
	if unknown := pruning.PruneWithOptions(obj, d.schema, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}); len(unknown) > 0 {
		return nil, fmt.Errorf("unknown fields %q", unknown)
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, d.schema)
	defaulting.Default(obj, d.schema)
	errs := validation.ValidateCustomResource(nil, obj, d.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.schema, obj)...)
	if len(errs) == 0 {
		errs, _ = d.rules.Validate(context.Background(), nil, d.schema, obj, nil, celconfig.RuntimeCELCostBudget)
	}
	if errs = append(errs, d.metadata(obj)...); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return typedAs(obj, kind)
}

// metadata is what all objects have.
func (d definition) metadata(obj map[string]any) field.ErrorList {
	path := field.NewPath("metadata")
	text, err := json.Marshal(obj["metadata"])
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	var meta metav1.ObjectMeta
	if err := strict.Decode(&meta); err != nil {
		return field.ErrorList{field.Invalid(path, string(text), err.Error())}
	}
	return apivalidation.ValidateObjectMeta(&meta, d.namespaced, apivalidation.NameIsDNSSubdomain, path)
}

// typedAs makes an object of a Go type of a custom resource.
func typedAs(obj map[string]any, kind string) (runtime.Object, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	out := map[string]runtime.Object{"GatewayClass": &gatewayv1.GatewayClass{}, "Gateway": &gatewayv1.Gateway{},
		"HTTPRoute": &gatewayv1.HTTPRoute{}, "ReferenceGrant": &gatewayv1.ReferenceGrant{}}[kind]
	return out, json.Unmarshal(text, out)
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextinstall "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	crdreg "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonser "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
)

type In struct {
	Op        string          `json:"op"`
	Group     string          `json:"group"`
	Version   string          `json:"version"`
	Kind      string          `json:"kind"`
	Namespace string          `json:"namespace"`
	Body      string          `json:"body"`
	Old       string          `json:"old"`
	Status    bool            `json:"status"`
	Text      string          `json:"text"`
	Schema    json.RawMessage `json:"schema"`
}
type Out map[string]interface{}

var strategies = map[string]interface{}{
	"Pod": pod.Strategy, "Node": node.Strategy, "Namespace": namespace.Strategy, "ConfigMap": configmap.Strategy,
	"Secret": secret.Strategy, "ServiceAccount": serviceaccount.Strategy, "Event": event.Strategy,
	"Service":    service.Strategy,
	"LimitRange": limitrange.Strategy, "ResourceQuota": resourcequota.Strategy,
	"Deployment": deployment.Strategy, "ReplicaSet": replicaset.Strategy, "DaemonSet": daemonset.Strategy,
	"StatefulSet": statefulset.Strategy, "Job": job.Strategy, "CronJob": cronjob.Strategy,
	"PriorityClass": priorityclass.Strategy, "PodDisruptionBudget": poddisruptionbudget.Strategy,
	"Lease": lease.Strategy,
}
var statusStrategies = map[string]interface{}{
	"Pod": pod.StatusStrategy, "Node": node.StatusStrategy, "Namespace": namespace.StatusStrategy,
	"Deployment": deployment.StatusStrategy, "ReplicaSet": replicaset.StatusStrategy, "DaemonSet": daemonset.StatusStrategy,
}

func decoder(strict bool) runtime.Decoder {
	s := jsonser.NewSerializerWithOptions(jsonser.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, jsonser.SerializerOptions{Strict: strict})
	return legacyscheme.Codecs.DecoderToVersion(s, runtime.InternalGroupVersioner)
}

func decode(in In, body string, strict bool) (runtime.Object, []string, error) {
	gvk := schema.GroupVersionKind{Group: in.Group, Version: in.Version, Kind: in.Kind}
	obj, got, err := decoder(strict).Decode([]byte(body), &gvk, nil)
	var warn []string
	if err != nil {
		se, is := runtime.AsStrictDecodingError(err)
		if is && obj != nil {
			for _, e := range se.Errors() {
				warn = append(warn, e.Error())
			}
		} else {
			if got != nil && got.Kind != "" {
				return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, in.Kind, err))
			}
			return nil, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return obj, warn, nil
}

func external(in In, obj runtime.Object) (interface{}, error) {
	v, err := legacyscheme.Scheme.ConvertToVersion(obj, schema.GroupVersion{Group: in.Group, Version: in.Version})
	if err != nil {
		return nil, err
	}
	v.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: in.Group, Version: in.Version, Kind: in.Kind})
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(b), nil
}

func fail(out Out, err error) Out {
	if s, ok := err.(apierrors.APIStatus); ok {
		st := s.Status()
		out["status"] = st
	} else {
		out["error"] = err.Error()
	}
	return out
}

func run(in In) (out Out) {
	out = Out{}
	defer func() {
		if r := recover(); r != nil {
			out["panic"] = fmt.Sprint(r)
		}
	}()
	ctx := genericapirequest.WithNamespace(context.Background(), in.Namespace)
	gvk := schema.GroupVersionKind{Group: in.Group, Version: in.Version, Kind: in.Kind}
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{APIGroup: in.Group, APIVersion: in.Version})
	switch in.Op {
	case "decode":
		obj, warn, err := decode(in, in.Body, true)
		out["warnings"] = warn
		if err != nil {
			return fail(out, err)
		}
		e, err := external(in, obj)
		if err != nil {
			return fail(out, err)
		}
		out["object"] = e
	case "create":
		obj, warn, err := decode(in, in.Body, true)
		out["warnings"] = warn
		if err != nil {
			return fail(out, err)
		}
		m, _ := meta.Accessor(obj)
		rest.FillObjectMetaSystemFields(m)
		if in.Namespace != "" && m.GetNamespace() == "" {
			m.SetNamespace(in.Namespace)
		}
		if err := rest.BeforeCreate(strategies[in.Kind].(rest.RESTCreateStrategy), ctx, obj); err != nil {
			return fail(out, err)
		}
		m.SetUID("")
		e, err := external(in, obj)
		if err != nil {
			return fail(out, err)
		}
		out["object"] = e
	case "update":
		old, _, err := decode(in, in.Old, false)
		if err != nil {
			return fail(out, err)
		}
		obj, _, err := decode(in, in.Body, false)
		if err != nil {
			return fail(out, err)
		}
		s := strategies[in.Kind]
		if in.Status {
			s = statusStrategies[in.Kind]
		}
		if err := rest.BeforeUpdate(s.(rest.RESTUpdateStrategy), ctx, obj, old); err != nil {
			return fail(out, err)
		}
		e, err := external(in, obj)
		if err != nil {
			return fail(out, err)
		}
		out["object"] = e
	case "smp":
		v, err := legacyscheme.Scheme.New(gvk)
		if err != nil {
			return fail(out, err)
		}
		b, err := strategicpatch.StrategicMergePatch([]byte(in.Old), []byte(in.Body), v)
		if err != nil {
			return fail(out, err)
		}
		out["object"] = json.RawMessage(b)
	case "jsonpatch":
		p, err := jsonpatch.DecodePatch([]byte(in.Body))
		if err != nil {
			return fail(out, err)
		}
		b, err := p.Apply([]byte(in.Old))
		if err != nil {
			return fail(out, err)
		}
		out["object"] = json.RawMessage(b)
	case "proto":
		v, err := legacyscheme.Scheme.New(gvk)
		if err != nil {
			return fail(out, err)
		}
		if err := json.Unmarshal([]byte(in.Body), v); err != nil {
			return fail(out, err)
		}
		v.GetObjectKind().SetGroupVersionKind(gvk)
		s := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
		var buf bytes.Buffer
		if err := s.Encode(v, &buf); err != nil {
			return fail(out, err)
		}
		out["bytes"] = base64.StdEncoding.EncodeToString(buf.Bytes())
		b, _ := json.Marshal(v)
		out["object"] = json.RawMessage(b)
	case "quantity":
		q, err := resource.ParseQuantity(in.Text)
		if err != nil {
			return fail(out, err)
		}
		q2 := q.DeepCopy()
		q2.RoundUp(-3)
		out["text"], out["rounded"] = q.String(), q2.String()
		out["value"] = q.Value()
	case "labels":
		s, err := labels.Parse(in.Text)
		if err != nil {
			return fail(out, err)
		}
		out["text"] = s.String()
		var l map[string]string
		json.Unmarshal([]byte(in.Body), &l)
		out["match"] = s.Matches(labels.Set(l))
	case "fields":
		s, err := fields.ParseSelector(in.Text)
		if err != nil {
			return fail(out, err)
		}
		s, err = s.Transform(func(l, v string) (string, string, error) {
			return legacyscheme.Scheme.ConvertFieldLabel(gvk, l, v)
		})
		if err != nil {
			return fail(out, err)
		}
		out["text"] = s.String()
	case "crd":
		sch := runtime.NewScheme()
		apiextinstall.Install(sch)
		ext := &apiextv1.CustomResourceDefinition{}
		if err := json.Unmarshal([]byte(in.Body), ext); err != nil {
			return fail(out, err)
		}
		sch.Default(ext)
		obj := &apiext.CustomResourceDefinition{}
		if err := sch.Convert(ext, obj, nil); err != nil {
			return fail(out, err)
		}
		if err := rest.BeforeCreate(crdreg.NewStrategy(sch), ctx, obj); err != nil {
			return fail(out, err)
		}
		back := &apiextv1.CustomResourceDefinition{}
		sch.Convert(obj, back, nil)
		b, _ := json.Marshal(back)
		out["object"] = json.RawMessage(b)
	case "structural":
		ext := &apiextv1.JSONSchemaProps{}
		if err := json.Unmarshal(in.Schema, ext); err != nil {
			return fail(out, err)
		}
		internal := &apiext.JSONSchemaProps{}
		if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(ext, internal, nil); err != nil {
			return fail(out, err)
		}
		ss, err := structuralschema.NewStructural(internal)
		if err != nil {
			return fail(out, err)
		}
		if errs := structuralschema.ValidateStructural(field.NewPath("schema"), ss); len(errs) > 0 {
			out["structural"] = texts(errs)
			return
		}
		var o map[string]interface{}
		json.Unmarshal([]byte(in.Body), &o)
		o = norm(o).(map[string]interface{})
		prunedPaths := pruning.PruneWithOptions(o, ss, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
		out["unknown"] = prunedPaths
		defaulting.PruneNonNullableNullsWithoutDefaults(o, ss)
		defaulting.Default(o, ss)
		validator, _, err := apiservervalidation.NewSchemaValidator(internal)
		if err != nil {
			return fail(out, err)
		}
		errs := apiservervalidation.ValidateCustomResource(nil, o, validator)
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, ss, o)...)
		out["errors"] = texts(errs)
		out["object"] = o
	}
	return out
}

func norm(v interface{}) interface{} {
	switch x := v.(type) {
	case map[string]interface{}:
		for k, e := range x {
			x[k] = norm(e)
		}
		return x
	case []interface{}:
		for i, e := range x {
			x[i] = norm(e)
		}
		return x
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
		return x
	}
	return v
}

func texts(errs field.ErrorList) []string {
	r := []string{}
	for _, e := range errs {
		r = append(r, e.Error())
	}
	return r
}

func main() {
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(make([]byte, 1<<20), 1<<28)
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for sc.Scan() {
		var in In
		if err := json.Unmarshal(sc.Bytes(), &in); err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		b, err := json.Marshal(run(in))
		if err != nil {
			b, _ = json.Marshal(Out{"error": "marshal: " + err.Error()})
		}
		w.Write(b)
		w.WriteString("\n")
	}
}

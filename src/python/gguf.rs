//! Model files: what they say of themselves, and their tensors.

use std::path::PathBuf;

use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyByteArray, PyBytes, PyDict, PyList},
};
use qrun::tools::quantize::FileType;
use qrun_quant::{
    Gguf,
    gguf::{Array, Tensor, Value, ValueType},
};

use crate::{opening, work};

/// A model file that is open.
#[pyclass(module = "qrun._qrun", frozen)]
pub struct File(std::sync::Arc<Gguf>);

#[pymethods]
impl File {
    /// Opens a file, or the demo model where none is named.
    #[new]
    fn new(py: Python, path: Option<PathBuf>) -> PyResult<Self> {
        let open = move |_: &work::Stop| opening::gguf(path.as_deref());
        Ok(Self(work::run(py, "reading the file", open)?.into()))
    }

    /// Version of the format.
    #[getter]
    fn version(&self) -> u32 {
        self.0.version()
    }

    /// The mix of formats, such as `Q4_K_M`, where the file says so.
    #[getter]
    fn file_type(&self) -> Option<&'static str> {
        let number = self.0.get("general.file_type")?.as_u64()?;
        FileType::from_number(number.try_into().ok()?).map(FileType::name)
    }

    /// Bytes of all its shards.
    #[getter]
    fn file_bytes(&self) -> u64 {
        self.0.file_bytes()
    }

    /// All that it says of itself.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in self.0.metadata() {
            dict.set_item(key, meta(py, value)?)?;
        }
        Ok(dict)
    }

    /// Its tensors: (name, type, shape with the rows first, bytes).
    fn tensors(&self) -> Vec<(String, &'static str, Vec<u64>, usize)> {
        let row = |tensor: &Tensor| {
            let shape = tensor.shape.iter().rev().copied().collect();
            (tensor.name.clone(), tensor.ty.name(), shape, tensor.data.len())
        };
        self.0.tensors().iter().map(row).collect()
    }

    /// The weights of a tensor, as bytes of f32 in the machine's order.
    fn floats<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyByteArray>> {
        let tensor = self.find(name)?;
        let bytes: Vec<u8> = py.detach(|| {
            let mut floats = vec![0.0; tensor.len()];
            (tensor.ty.format().dequantize)(&tensor.data, &mut floats);
            floats.iter().flat_map(|x: &f32| x.to_ne_bytes()).collect()
        });
        Ok(PyByteArray::new(py, &bytes))
    }

    /// The bytes of a tensor, as they lie in the file.
    fn data<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.find(name)?.data))
    }
}

impl File {
    fn find(&self, name: &str) -> PyResult<&Tensor> {
        self.0.tensor(name).ok_or_else(|| PyKeyError::new_err(format!("there is no tensor {name:?} in this file")))
    }
}

fn meta<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Str(text) => text.as_str().into_pyobject(py)?.into_any(),
        Value::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Array(items) => array(py, items)?.into_any(),
        Value::F32(x) => x.into_pyobject(py)?.into_any(),
        Value::F64(x) => x.into_pyobject(py)?.into_any(),
        Value::U8(n) => n.into_pyobject(py)?.into_any(),
        Value::I8(n) => n.into_pyobject(py)?.into_any(),
        Value::U16(n) => n.into_pyobject(py)?.into_any(),
        Value::I16(n) => n.into_pyobject(py)?.into_any(),
        Value::U32(n) => n.into_pyobject(py)?.into_any(),
        Value::I32(n) => n.into_pyobject(py)?.into_any(),
        Value::U64(n) => n.into_pyobject(py)?.into_any(),
        Value::I64(n) => n.into_pyobject(py)?.into_any(),
    })
}

fn array<'py>(py: Python<'py>, items: &Array) -> PyResult<Bound<'py, PyList>> {
    match items.ty {
        ValueType::Str => PyList::new(py, items.strings().collect::<Vec<_>>()),
        ValueType::Array => {
            let lists = items.arrays().map(|inner| array(py, &inner)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, lists)
        }
        ValueType::F32 | ValueType::F64 => PyList::new(py, items.numbers().collect::<Vec<_>>()),
        ValueType::Bool => PyList::new(py, items.numbers().map(|x| x != 0.0).collect::<Vec<_>>()),
        // Exact up to 2^53, and no list of a model goes there.
        _ => PyList::new(py, items.numbers().map(|x| x as i64).collect::<Vec<_>>()),
    }
}

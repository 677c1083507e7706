<?php // .hid/index.php
